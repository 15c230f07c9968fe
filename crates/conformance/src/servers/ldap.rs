//! OpenLDAP servers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::process::Process;
use super::{Program, Result, ServerError, TlsFiles, free_port, until};

/// What everything lies below.
const SUFFIX: &str = "dc=example";
/// The password of the superuser, `cn=root,dc=example`, and of every admin that is made here.
pub const PASSWORD: &str = "admin-password";
/// Where Debian keeps slapd's modules and schemas.
const MODULES: &str = "/usr/lib/ldap";
const SCHEMAS: &str = "/etc/ldap/schema";

/// How to start it.
#[derive(Debug, Clone, Default)]
pub struct LdapOptions {
    /// Lines of `access to` and `limits`, for the database.
    pub access: String,
    /// Passwords kept as `{SSHA512}` are understood.
    pub sha512: bool,
    /// Listen with TLS too, on [`LdapServer::tls_port`].
    pub tls: Option<TlsFiles>,
    /// Take no writes.
    pub read_only: bool,
    /// No password policy.
    pub lenient: bool,
}

/// A running slapd.
pub struct LdapServer {
    options: LdapOptions,
    port: u16,
    tls_port: u16,
    folder: TempDir,
    process: Option<Process>,
}

fn slapd() -> Program {
    Program {
        variable: "MESH_TEST_SLAPD",
        installed: None,
        on_path: Some("slapd"),
    }
}

fn client(name: &'static str) -> Program {
    Program {
        variable: "MESH_TEST_LDAP_UTILS",
        installed: None,
        on_path: Some(name),
    }
}

impl LdapServer {
    /// Starts one with the base, a place for logins, one for groups and a password policy.
    pub async fn start(options: LdapOptions) -> Result<Self> {
        let mut last = ServerError::new("not tried");
        for _ in 0..5 {
            let mut server = Self {
                options: options.clone(),
                port: free_port()?,
                tls_port: free_port()?,
                folder: tempfile::tempdir()?,
                process: None,
            };
            std::fs::create_dir_all(server.folder.path().join("db"))?;
            server.configure(false)?;
            match server.start_again().await {
                Ok(()) => {
                    server.add(BEGINNING).await?;
                    if options.read_only {
                        server.configure(true)?;
                        server.restart().await?;
                    }
                    return Ok(server);
                }
                Err(error) if error.to_string().contains("not installed") => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Where it listens without TLS.
    pub fn port(&self) -> u16 {
        self.port
    }
    /// Where it listens with TLS, if the options ask for that.
    pub fn tls_port(&self) -> u16 {
        self.tls_port
    }
    /// All that it wrote to its log, over all its starts: a line for each operation.
    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::log).unwrap_or_default()
    }

    fn configure(&self, read_only: bool) -> Result<()> {
        let db = self.folder.path().join("db");
        let mut text = String::new();
        for schema in ["core", "cosine", "inetorgperson"] {
            text += &format!("include {SCHEMAS}/{schema}.schema\n");
        }
        text += &format!("modulepath {MODULES}\nmoduleload back_mdb\nmoduleload ppolicy\n");
        if self.options.sha512 {
            text += "moduleload pw-sha2\n";
        }
        if let Some(tls) = &self.options.tls {
            text += &format!(
                "TLSCertificateFile {}\nTLSCertificateKeyFile {}\n",
                tls.certificate.display(),
                tls.key.display()
            );
        }
        text += &format!(
            "loglevel stats\npidfile {}\ndatabase monitor\ndatabase mdb\nsuffix {SUFFIX}\nrootdn cn=root,{SUFFIX}\n\
             rootpw {PASSWORD}\ndirectory {}\ndbnosync\nindex objectClass,uid,cn,member eq\n{}\n",
            self.folder.path().join("pid").display(),
            db.display(),
            self.options.access,
        );
        if !self.options.lenient {
            text += &format!(
                "overlay ppolicy\nppolicy_default cn=policy,{SUFFIX}\nppolicy_hash_cleartext\n"
            );
        }
        if read_only {
            text = text.replace("dbnosync\n", "dbnosync\nreadonly on\n");
        }
        Ok(std::fs::write(self.config(), text)?)
    }
    fn config(&self) -> PathBuf {
        self.folder.path().join("slapd.conf")
    }

    /// Starts it on its port and folder, and waits until it answers.
    pub async fn start_again(&mut self) -> Result<()> {
        // Debian keeps it where only root looks for programs.
        let program = match slapd().find("OpenLDAP") {
            Ok(program) => program,
            Err(_) if Path::new("/usr/sbin/slapd").is_file() => PathBuf::from("/usr/sbin/slapd"),
            Err(error) => return Err(error),
        };
        let mut urls = format!("ldap://127.0.0.1:{}/", self.port);
        if self.options.tls.is_some() {
            urls += &format!(" ldaps://127.0.0.1:{}/", self.tls_port);
        }
        let config = self.config().display().to_string();
        let args = ["-f", &config, "-h", &urls, "-d", "stats"].map(str::to_owned);
        let log = self.folder.path().join("log");
        self.process = Some(Process::start(&program, &args, &log)?);
        let port = self.port;
        let process = &mut self.process;
        until("an answer of slapd", Duration::from_secs(20), || {
            let ended = process.as_mut().and_then(Process::ended);
            let log = process.as_ref().map(Process::log).unwrap_or_default();
            async move {
                if let Some(how) = ended {
                    return Err(format!("it ended ({how}): {log}"));
                }
                let tried = tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
                tried.map(drop).map_err(|error| error.to_string())
            }
        })
        .await
    }
    /// Ends it as a service manager does, and starts it again on the same port and folder.
    pub async fn restart(&mut self) -> Result<()> {
        if let Some(process) = &mut self.process {
            process.signal(Signal::TERM)?;
            process.wait().await?;
        }
        self.start_again().await
    }
    /// Stops it in its tracks: it keeps its connections, takes new ones, and answers nothing.
    pub async fn stop(&self) -> Result<()> {
        match &self.process {
            Some(process) => process.stop().await,
            None => Err(ServerError::new("it does not run")),
        }
    }
    /// Lets a stopped one go on.
    pub fn go_on(&self) -> Result<()> {
        match &self.process {
            Some(process) => process.signal(Signal::CONT),
            None => Err(ServerError::new("it does not run")),
        }
    }

    /// Runs a client of OpenLDAP's own, as the superuser or as somebody else; its exit code and output.
    pub async fn client(
        &self,
        name: &'static str,
        who: Option<(&str, &str)>,
        args: &[&str],
        stdin: &str,
    ) -> Result<(i32, String)> {
        let program = client(name).find("The LDAP clients (ldap-utils)")?;
        let root = format!("cn=root,{SUFFIX}");
        let (dn, password) = who.unwrap_or((&root, PASSWORD));
        let files = tempfile::tempdir_in(self.folder.path())?;
        let (key, input) = (files.path().join("pw"), files.path().join("in"));
        std::fs::write(&key, password)?;
        std::fs::write(&input, stdin)?;
        let mut command = Command::new(program);
        command
            .arg("-x")
            .arg("-H")
            .arg(format!("ldap://127.0.0.1:{}", self.port))
            .arg("-D")
            .arg(dn)
            .arg("-y")
            .arg(&key)
            .args(args)
            .env("LDAPNOINIT", "1")
            .stdin(std::fs::File::open(&input)?);
        let ran = tokio::task::spawn_blocking(move || command.output()).await;
        let output = ran.map_err(|error| ServerError::new(error.to_string()))??;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = String::from_utf8_lossy(&output.stderr);
        Ok((output.status.code().unwrap_or(-1), text + &told))
    }
    /// The same; a code other than 0 is an error.
    async fn must(&self, name: &'static str, args: &[&str], stdin: &str) -> Result<String> {
        match self.client(name, None, args, stdin).await? {
            (0, text) => Ok(text),
            (code, text) => Err(ServerError::new(format!("{name}: {code}: {text}"))),
        }
    }
    /// Adds entries, as LDIF.
    pub async fn add(&self, ldif: &str) -> Result<()> {
        self.must("ldapadd", &[], ldif).await.map(drop)
    }
    /// Changes entries, as LDIF.
    pub async fn modify(&self, ldif: &str) -> Result<()> {
        self.must("ldapmodify", &[], ldif).await.map(drop)
    }
    /// Deletes an entry.
    pub async fn delete(&self, dn: &str) -> Result<()> {
        self.must("ldapdelete", &[dn], "").await.map(drop)
    }
    /// Searches, and gives LDIF without folded lines.
    pub async fn search(&self, base: &str, filter: &str, attributes: &[&str]) -> Result<String> {
        let args = ["-LLL", "-o", "ldif-wrap=no", "-b", base, filter];
        self.must("ldapsearch", &[&args[..], attributes].concat(), "")
            .await
    }
}

/// What every test's directory begins with: a policy that locks after three failures for ever.
const BEGINNING: &str = "dn: dc=example
objectClass: dcObject
objectClass: organization
o: example
dc: example

dn: ou=apps,dc=example
objectClass: organizationalUnit
ou: apps

dn: ou=groups,dc=example
objectClass: organizationalUnit
ou: groups

dn: cn=policy,dc=example
objectClass: device
objectClass: pwdPolicy
cn: policy
pwdAttribute: userPassword
pwdLockout: TRUE
pwdMaxFailure: 3
pwdLockoutDuration: 0

dn: uid=mesh,ou=apps,dc=example
objectClass: account
objectClass: simpleSecurityObject
uid: mesh
userPassword: admin-password

dn: cn=readers,ou=groups,dc=example
objectClass: groupOfNames
cn: readers
member: cn=nobody,dc=example

dn: cn=writers,ou=groups,dc=example
objectClass: groupOfNames
cn: writers
member: cn=nobody,dc=example

dn: cn=owners,ou=groups,dc=example
objectClass: groupOfNames
cn: owners
member: cn=nobody,dc=example
";
