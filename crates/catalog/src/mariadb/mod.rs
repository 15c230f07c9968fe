//! MariaDB.
//!
//! - **Account**: a login and a host together, `'web'@'%'`. The host is one of the values; the same login
//!   under another host is another account. One that carries our mark for the same consumer, from when its
//!   wish named another host, is dropped with the change. One that somebody else made, or one without a
//!   name, with a more exact host is met first by whoever connects from there: then the login is not held,
//!   and it is told which account stands in the way. It is never dropped here.
//! - **Proof**: `verifier`. The server's own table shows what it keeps of each password: SHA1(SHA1(password))
//!   for `mysql_native_password`, a public key for `ed25519`; both are computed here and compared. Nobody
//!   is ever logged in as, so no account can be shut out by `max_password_errors`, and no login fails in
//!   a log. An account that others shut out so is not visible in any table; a changed password lets it in.
//! - **Restart** forgets nothing; each change of an account is kept at once. A restore of the whole server
//!   brings accounts and marks back as they were, together; so does a dump of accounts.
//! - **Identity**: none that lasts. `server_uid` changes with the port. The run is the second of the start.
//! - **Mark**: rights that grant nothing, CREATE on a table that does not exist in a database that does not:
//!   ``GRANT CREATE ON `mk1.home.….web`.`1-1.…` ``. They are kept with the account: a login that is dropped
//!   and made anew has none, a new password or a lock leaves them, `REVOKE ALL PRIVILEGES` takes them,
//!   which is seen and healed. Replicas and clusters carry them.
//! - **Sessions**: a new password and a lock leave open connections alone, so switching a login off and
//!   removing it also end its sessions, all that bear the login, whatever their host.
//! - **Rotation**: two logins in turn are two accounts with the same rights and the same mark. Views, routines and
//!   events name the account that defined them and fail once that is dropped: the first stays, locked.
//! - **Removing** locks, ends the sessions, and drops the account. Databases stay. Views and routines that
//!   the login defined stay too, but those with `SQL SECURITY DEFINER` fail until their definer is another.
//! - **In use**: sessions that are open now, as the process list shows them to an admin with `PROCESS`. Refused
//!   logins are counted for the server as a whole, and so are not told.
//! - **Finding** logins: the account that nobody stands before is told of each login, with the others in words.
//!   Left out are accounts that values have no word for: those that log in by another plugin, in several
//!   ways, or without a password, and those without a name.
//! - **Purging** drops a database that Meshkeeper made for its owner, which its comment says, and no other. It
//!   is refused while any account, role or `PUBLIC` has a right on it, on a table or a routine in it, or a right
//!   of that kind on the whole server, unless that is the admin login, `root`, or has `SUPER`.
//! - **Rights** are compared by what the values can express: on databases, and on the whole server. On an
//!   account of ours a right on a database that is not named is a surplus, so that a changed `database`
//!   leaves nothing behind; further databases are named by `also`. Rights on tables, columns and routines, and
//!   roles, are none of this adapter's business. `_` and `%` in a database's name are escaped.
//! - **No transaction** holds an account's statements together. They are done in an order in which whatever
//!   is half done is finished by the next `create`.
//! - **Read-only**: a server with `read_only` is looked at and not written to, even where the admin login
//!   would pass.
//! - **Many at once**: three or four queries in one packet read all accounts, or those of up to 500 logins. Rows
//!   that are the same as when they were found in order are not judged again. Making takes statements for
//!   many accounts each, as many as fit the budget, and one for each mark.

mod account;
mod adapter;
mod apply;
mod bulk;
mod check;
mod classify;
mod compare;
mod connect;
mod doctor;
mod find;
mod hosts;
mod mark;
mod memory;
mod purge;
mod read;
mod rights;
mod rows;
mod server;
mod sql;
mod statements;
mod uses;
mod values;
mod verifier;

use mesh_sdk::adapter::{Descriptor, ProviderSettings, Refusal, Scheme, Service};
use mesh_sdk::{Error, Kind, Provision};

pub use adapter::Mariadb;
pub use values::{Auth, DatabaseRights, MariadbValues, Privileges, Set};

/// The kind `mariadb`.
#[derive(Debug, Clone, Copy, Default)]
pub struct MariadbKind;

const SCHEMES: [Scheme; 2] = [
    Scheme::plain("mariadb", 3306),
    Scheme::tls("mariadbs", 3306),
];

impl Kind for MariadbKind {
    type Adapter = Mariadb;

    fn descriptor(&self) -> Descriptor {
        let mut page = Descriptor::new("mariadb", "MariaDB 10.11");
        page.schemes = &SCHEMES;
        page.capabilities = adapter::CAPABILITIES;
        page.proof = "verifier: what the server keeps of the password, computed and compared";
        page.restart = "nothing";
        page.identity = "none that lasts; the run is the second of the start";
        page.admin_rights = &doctor::RIGHTS;
        page.reserved = &[
            "root",
            "mariadb.sys",
            "mysql",
            "mysql.*",
            "debian-sys-maint",
            "PUBLIC",
            "the admin login",
        ];
        page.limits = "login: 128 characters up to U+FFFF, no space at the end; password: any UTF-8 without NUL";
        page.keeps = "databases with all that is in them, and what the login defined. Purging drops a database \
                      that Meshkeeper made and that nobody but admins may use";
        page.rotation = "two logins in turn, `LOGIN` and `LOGIN__b`, with the same rights; the one whose turn is over is \
                         switched off. The first stays, since views and routines name the login that defined them";
        page.mark = "CREATE on a table that does not exist, in a database that does not";
        page
    }

    fn check(
        &self,
        provider: &ProviderSettings,
        wish: &Provision<'_, MariadbValues>,
    ) -> Result<(), Refusal> {
        check::wish(provider, wish)
    }

    /// An account without any right, locked.
    fn canary(&self, _provider: &ProviderSettings) -> Option<MariadbValues> {
        Some(MariadbValues::default())
    }

    /// The databases of which it is the owner.
    fn data_of(&self, values: &MariadbValues) -> Vec<String> {
        compare::owned(values).map(str::to_owned).collect()
    }

    fn service(&self, provider: &ProviderSettings, wish: &Provision<'_, MariadbValues>) -> Service {
        Service {
            address: provider.address(),
            path: wish.values().database.clone().unwrap_or_default(),
        }
    }

    fn check_provider(&self, provider: &ProviderSettings) -> Result<(), Refusal> {
        check::provider(provider)
    }

    fn open(&self, provider: ProviderSettings) -> Result<Mariadb, Error> {
        Ok(Mariadb::new(provider))
    }
}
