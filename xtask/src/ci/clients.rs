//! Clients that others wrote, against the server just built: two in `make test`, the others in `make soak`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Work;
use super::tools::{command, installed, target_folder, works};

/// pymemcache and what runs its own tests, in releases that the step is known to work with.
pub(super) const PYMEMCACHE: [&str; 2] = ["pymemcache==4.0.0", "pytest==8.3.5"];
const PYLIBMC: [&str; 2] = ["pylibmc==1.6.3", "pytest==8.3.5"];
const MEMJS: &str = "1.3.2";

/// pymemcache: calls of ours, and its own integration tests over TCP, a UNIX socket and TLS.
pub(super) fn pymemcache(root: &Path) -> Work {
    let scripts = ["pymemcache_smoke.py", "pymemcache_suite.py"];
    let python = openssl().and_then(|()| python_with(root, "pymemcache", &PYMEMCACHE));
    python.map_or_else(Work::Skip, |python| {
        Work::Commands(scripts.iter().map(|name| script(root, &python, name)).collect())
    })
}

/// memccapable: what libmemcached's authors expect of a server, and of a router in front of one.
pub(super) fn memccapable(root: &Path) -> Work {
    if !installed("memccapable") || !installed("python3") {
        return Work::Skip("memccapable (Debian: libmemcached-tools) or python3 is not installed".into());
    }
    let mut router = script(root, "python3", "memccapable.py");
    router.arg("--router");
    Work::Commands(vec![script(root, "python3", "memccapable.py"), router])
}

/// Debian's memcached-tool: what it shows of a server.
pub(super) fn memcached_tool(root: &Path) -> Work {
    const TOOL: &str = "/usr/share/memcached/scripts/memcached-tool";
    if !Path::new(TOOL).exists() || !installed("perl") || !installed("python3") {
        return Work::Skip("memcached-tool (Debian: memcached), perl or python3 is not installed".into());
    }
    Work::Commands(vec![script(root, "python3", "memcached_tool.py")])
}

/// The page of the admin listener in a browser.
pub(super) fn page(root: &Path) -> Work {
    if !installed("chromium") || !installed("python3") {
        return Work::Skip("chromium or python3 is not installed".into());
    }
    Work::Commands(vec![script(root, "python3", "page.py")])
}

/// pylibmc, gomemcache, memjs, memcached_exporter, collectd and Telegraf. Those that cannot be had here are left out, each with a line.
pub(super) fn others(root: &Path) -> Work {
    if let Err(reason) = openssl() {
        return Work::Skip(reason);
    }
    let mut commands = Vec::new();
    let mut missing = Vec::new();
    for client in [pylibmc, gomemcache, memjs, exporter, collectd, telegraf] {
        match client(root) {
            Ok(more) => commands.extend(more),
            Err(reason) => missing.push(reason),
        }
    }
    if commands.is_empty() {
        return Work::Skip(missing.join("; "));
    }
    missing.iter().for_each(|reason| println!("== clients: left out: {reason}"));
    Work::Commands(commands)
}

fn pylibmc(root: &Path) -> Result<Vec<Command>, String> {
    let python = python_with(root, "clients/pylibmc", &PYLIBMC)?;
    let mut suite = script(root, &python, "pylibmc_suite.py");
    suite.arg(target_folder(root).join("clients/pylibmc-source"));
    let mut calls = script(root, &python, "server.py");
    calls.args([&python, "tests/clients/pylibmc_calls.py"]);
    Ok(vec![suite, calls])
}

fn gomemcache(root: &Path) -> Result<Vec<Command>, String> {
    let go = Go::fetch(root, "gomemcache")?;
    let mut suite = script(root, "python3", "gomemcache.py");
    go.prepare(suite.arg(&go.folder));
    Ok(vec![suite])
}

/// prometheus/memcached_exporter, which asks the same server.
fn exporter(root: &Path) -> Result<Vec<Command>, String> {
    let go = Go::fetch(root, "exporter")?;
    let program = go.folder.join("memcached_exporter").to_string_lossy().into_owned();
    let module = "github.com/prometheus/memcached_exporter/cmd/memcached_exporter";
    let mut build = command(&["go", "build", "-o", &program, module]);
    go.prepare(build.current_dir(root.join("tests/clients/exporter")));
    if !works(build) {
        return Err("memcached_exporter cannot be built: it wants Go 1.21".into());
    }
    let mut comparison = script(root, "python3", "exporter.py");
    comparison.arg(program);
    Ok(vec![comparison])
}

fn collectd(root: &Path) -> Result<Vec<Command>, String> {
    const COLLECTD: &str = "/usr/sbin/collectd";
    if !Path::new(COLLECTD).exists() {
        return Err("collectd (Debian: collectd-core) is not installed".into());
    }
    let mut comparison = script(root, "python3", "collectd.py");
    comparison.arg(COLLECTD);
    Ok(vec![comparison])
}

/// Telegraf's input for memcached, without the rest of it.
fn telegraf(root: &Path) -> Result<Vec<Command>, String> {
    let go = Go::fetch(root, "telegraf")?;
    let program = go.folder.join("telegraf_memcached").to_string_lossy().into_owned();
    let mut build = command(&["go", "build", "-o", &program, "."]);
    go.prepare(build.current_dir(root.join("tests/clients/telegraf")));
    if !works(build) {
        return Err("Telegraf's input cannot be built: it wants Go 1.22".into());
    }
    let mut comparison = script(root, "python3", "telegraf.py");
    comparison.arg(program);
    Ok(vec![comparison])
}

/// A module of Go in a folder of tests/clients, with what it requires.
struct Go {
    /// What is fetched and built. Go needs whole paths.
    folder: PathBuf,
}

impl Go {
    fn fetch(root: &Path, name: &str) -> Result<Self, String> {
        if !installed("go") {
            return Err(format!("go is not installed ({name})"));
        }
        let go = Go { folder: root.join(target_folder(root)).join("clients").join(name) };
        let mut download = command(&["go", "mod", "download"]);
        go.prepare(download.current_dir(root.join("tests/clients").join(name)));
        if works(download) {
            Ok(go)
        } else {
            Err(format!("{name} cannot be fetched: no access to the module proxy of Go"))
        }
    }

    fn prepare(&self, command: &mut Command) {
        // A module cache that can be deleted like everything else in the target folder.
        command.env("GOPATH", self.folder.join("go")).env("GOFLAGS", "-mod=readonly -modcacherw");
        command.env("GOTOOLCHAIN", "local");
    }
}

fn memjs(root: &Path) -> Result<Vec<Command>, String> {
    if !installed("node") || !installed("npm") {
        return Err("node or npm is not installed (memjs)".into());
    }
    let folder = target_folder(root).join("clients/memjs");
    let has_client = || {
        let check = format!("process.exit(require('memjs/package.json').version === '{MEMJS}' ? 0 : 1)");
        let mut node = command(&["node", "-e", &check]);
        node.env("NODE_PATH", folder.join("node_modules"));
        works(node)
    };
    let install = || copy_packages(root, &folder) && works(npm(&folder));
    if !(has_client() || install() && has_client()) {
        return Err("memjs cannot be installed: no access to the registry of npm".into());
    }
    let mut calls = script(root, "python3", "server.py");
    calls.args(["node", "tests/clients/memjs/calls.js"]).env("NODE_PATH", folder.join("node_modules"));
    Ok(vec![calls])
}

fn copy_packages(root: &Path, folder: &Path) -> bool {
    ["package.json", "package-lock.json"].iter().all(|name| {
        std::fs::create_dir_all(folder).is_ok()
            && std::fs::copy(root.join("tests/clients/memjs").join(name), folder.join(name)).is_ok()
    })
}

fn npm(folder: &Path) -> Command {
    let mut npm = command(&["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
    npm.current_dir(folder);
    npm
}

/// One of the scripts in tests/clients, with the server's address.
fn script(root: &Path, python: &str, name: &str) -> Command {
    let mut script = command(&[python, &format!("tests/clients/{name}")]);
    // The scripts share a module, whose compiled form does not belong beside them.
    script.arg(binary(root)).env("PYTHONDONTWRITEBYTECODE", "1");
    script
}

fn binary(root: &Path) -> PathBuf {
    target_folder(root).join("debug/guira")
}

/// Certificates are made for each run.
fn openssl() -> Result<(), String> {
    if installed("openssl") { Ok(()) } else { Err("openssl is not installed".into()) }
}

/// A Python of its own in the target folder that has these packages: its path, or why there is none.
pub(super) fn python_with(root: &Path, name: &str, packages: &[&str]) -> Result<String, String> {
    if !works(command(&["python3", "-c", "import venv, ensurepip"])) {
        return Err("python3 with venv is not installed".into());
    }
    let folder = target_folder(root).join(name);
    let python = folder.join("bin/python").to_string_lossy().into_owned();
    let pip = |further: &[&str]| {
        works(command(&[&[&python, "-m", "pip", "install", "--quiet"], further, packages].concat()))
    };
    // Without an index it succeeds only if there is nothing to install.
    let has_packages = || pip(&["--no-index"]);
    let make = || works(command(&["python3", "-m", "venv", &folder.to_string_lossy()])) && pip(&[]);
    if has_packages() || make() && has_packages() {
        return Ok(python);
    }
    Err(format!("{} cannot be installed: no access to the Python package index", packages[0]))
}
