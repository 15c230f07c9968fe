//! The example adapters of `examples/exec`, ready to run.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{Program, Result, ServerError};

/// Which example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Example {
    /// In Python, run as it is.
    Python,
    /// In TypeScript, compiled first, its types checked.
    TypeScript,
}

/// An example that can be started.
#[derive(Debug)]
pub struct ExampleProgram {
    path: PathBuf,
    _built: Option<TempDir>,
}

impl ExampleProgram {
    /// The program.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The folder of the examples.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/exec")
}

impl Example {
    /// The program that does things behind an example's back.
    pub fn bench() -> PathBuf {
        folder().join("bench.py")
    }
    /// The program, made ready.
    pub fn program(self) -> Result<ExampleProgram> {
        on_path("MESH_TEST_PYTHON_3", "python3").find("Python 3")?;
        match self {
            Example::Python => Ok(ExampleProgram {
                path: folder().join("python/adapter.py"),
                _built: None,
            }),
            Example::TypeScript => compiled(),
        }
    }
}

fn on_path(variable: &'static str, on_path: &'static str) -> Program {
    Program {
        variable,
        installed: None,
        on_path: Some(on_path),
    }
}

fn compiled() -> Result<ExampleProgram> {
    let node = on_path("MESH_TEST_NODE", "node").find("Node")?;
    let compiler = Program {
        variable: "MESH_TEST_TSC",
        installed: Some(".servers/exec/node_modules/typescript/bin/tsc"),
        on_path: None,
    };
    let compiler = compiler.find("The TypeScript compiler")?;
    let built = tempfile::tempdir()?;
    // Beside the compiler lie the types of Node.
    let types = compiler
        .ancestors()
        .nth(3)
        .map(|modules| modules.join("@types"));
    let output = Command::new(node)
        .arg(&compiler)
        .arg("--project")
        .arg(folder().join("typescript"))
        .arg("--outDir")
        .arg(built.path())
        .arg("--typeRoots")
        .arg(types.unwrap_or_default())
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout);
        return Err(ServerError::new(format!("the TypeScript example: {said}")));
    }
    let path = built.path().join("adapter.mjs");
    executable(&path)?;
    Ok(ExampleProgram {
        path,
        _built: Some(built),
    })
}

fn executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let rights = std::fs::Permissions::from_mode(0o755);
    Ok(std::fs::set_permissions(path, rights)?)
}
