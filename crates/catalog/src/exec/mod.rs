//! A program of yours: an adapter in any language, spoken to with JSON lines over its standard input and
//! output.
//!
//! - **The protocol** is `docs/spec/exec-adapter.md`; two whole examples lie in `examples/exec`. An author
//!   tries a program with `mesh conformance --exec PROGRAM`.
//! - **Address**: `url = "exec:./adapter.py"`, a program on this machine that may be executed. Its folder is
//!   its working directory.
//! - **Options** of the provider: `args` for its command line, `settings` for whatever it needs to know (never
//!   a secret), `canary`, and `service` for the address that apps are told.
//! - **Values** stand below the one key `values` of a `needs` table, free in form: the program checks them.
//!   So `mesh check` cannot tell a mistake in them; the program refuses it before it writes anything.
//! - **The process**: one a provider, started when it is first asked, started again when it died. A call that
//!   is cut off ends it: it is given nothing new, and is killed once the other calls in flight are over (H-9).
//! - **Secrets** go over standard input only, never in arguments or the environment. The environment is
//!   cleared but for `PATH`, `HOME` and `LANG`. What the program says on standard error is logged at debug
//!   level, scrubbed like every log line.
//! - **Marks**: the program is given the text to leave and tells the text that it found. Whose it is, is judged
//!   here; the installation's key never leaves Meshkeeper.
//! - **The canary** needs the option `canary`: values that grant nothing, in the program's own words. Without them
//!   nobody is removed for being left out of the manifest, but by a person's word.
//! - **Data** that outlives a login stands below the key `data` of a `needs` table, under the program's own names
//!   for `mesh purge`; it is asked for nowhere else.
//! - **Proof, restart, identity, sessions, who is in use**: what the program says, as far as it says it can.

mod adapter;
mod ask;
mod bulk;
mod check;
mod classify;
mod environment;
mod judge;
mod lines;
mod process;
mod protocol;
mod reverse;
mod seat;
mod values;

use mesh_sdk::adapter::{Descriptor, ProviderSettings, Refusal, Scheme, Service};
use mesh_sdk::{Error, Kind, Provision};

pub use adapter::Exec;
pub use values::{ExecOptions, ExecValues};

/// The kind `exec`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExecKind;

const SCHEMES: [Scheme; 1] = [Scheme::file("exec")];

impl Kind for ExecKind {
    type Adapter = Exec;

    fn descriptor(&self) -> Descriptor {
        let mut page = Descriptor::new("exec", "a program of yours, in any language");
        page.schemes = &SCHEMES;
        page.capabilities = adapter::AT_BEST;
        page.proof = "what the program says: verifier, login, or presence";
        page.restart = "what the program says";
        page.identity = "what the program says";
        page.admin_rights = &["whatever the program needs; it is handed over standard input"];
        page.reserved = &["the admin login", "what the program names"];
        page.limits = "login: up to 4096 bytes; password: 1 to 65536 bytes of UTF-8 without NUL; \
                       values: up to 256 KiB as JSON; and what the program refuses";
        page.keeps = "what the program keeps; it must keep data (R-5), which `mesh purge` knows by the names \
                      that stand below `data`";
        page.rotation = "two passwords at once where the program can (`two_passwords`), else two logins in turn, of which the \
                         program is told by `base`";
        page.mark = "a text that the program keeps beside the login";
        page
    }

    fn check(
        &self,
        provider: &ProviderSettings,
        wish: &Provision<'_, ExecValues>,
    ) -> Result<(), Refusal> {
        check::wish(provider, wish)
    }

    fn options_schema(&self) -> Option<serde_json::Value> {
        Some(schemars::schema_for!(ExecOptions).to_value())
    }

    /// What the provider's options say: only who knows the program knows what grants nothing.
    fn canary(&self, provider: &ProviderSettings) -> Option<ExecValues> {
        let options = provider.typed_options::<ExecOptions>().ok()?;
        Some(ExecValues {
            values: options.canary?,
            data: Vec::new(),
        })
    }

    /// What the manifest says: only the program could tell it from the values, and it may not run.
    fn data_of(&self, values: &ExecValues) -> Vec<String> {
        values.data.clone()
    }

    fn service(&self, provider: &ProviderSettings, _wish: &Provision<'_, ExecValues>) -> Service {
        let told = provider.typed_options::<ExecOptions>();
        let told = told.ok().and_then(|options| options.service);
        Service {
            address: told.unwrap_or_else(|| provider.address()),
            path: String::new(),
        }
    }

    fn check_provider(&self, provider: &ProviderSettings) -> Result<(), Refusal> {
        check::provider(provider)
    }

    fn open(&self, provider: ProviderSettings) -> Result<Exec, Error> {
        Exec::new(provider)
    }
}
