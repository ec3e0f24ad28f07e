//! `guira memcached`, and whatever is called `memcached`: memcached's own command line in front of this server.

#[cfg(test)]
mod documented;
mod flags;
mod help;
mod listen;
mod ports;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use guira_server::{Address, Options, RegionPlace, Running, Size, VERSION_SPOKEN};

use crate::node::memcached::flags::Flags;
use crate::node::memcached::table::{FLAGS, WORDS};
use crate::node::options::CliOptions;
use crate::node::process::{self, Coredumps, Identity, PidFile, Place, Terminal};
use crate::node::run::{self, Keeps, Origin};
use guira_cli::failure::{FAILED, Failure};
use guira_cli::log;
use guira_cli::output;

/// What `sysexits.h` calls a wrong use of the command line; memcached ends so too.
const EX_USAGE: u8 = 64;

/// Runs with this command line, of which the first word is the program's name.
pub(crate) fn main(words: impl IntoIterator<Item = std::ffi::OsString>) -> ExitCode {
    let flags = match Flags::read(words) {
        Ok(flags) => flags,
        Err(error) => {
            // If this fails there is no place to report it.
            let _ = error.print();
            let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return if asked { ExitCode::SUCCESS } else { ExitCode::from(EX_USAGE) };
        }
    };
    match run(&flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let code = if crate::node::is_usage(&failure) { EX_USAGE } else { FAILED };
            failure.report(crate::NAME, code)
        }
    }
}

/// The command line with a description of everything, for its man page.
pub(crate) fn described() -> clap::Command {
    flags::command().about("A cache server, by memcached's own command line").after_help(help::words())
}

/// Runs the server with memcached's options.
fn run(flags: &Flags) -> Result<(), Failure> {
    if flags.has("help") {
        return output::print(&help::text());
    }
    if flags.has("license") {
        return output::print(help::LICENSE);
    }
    if flags.has("version") {
        return output::print(&format!("memcached {VERSION_SPOKEN}\n"));
    }
    let mut warnings = Vec::new();
    let mut options = translate(flags, &mut warnings)?.read()?;
    for warning in &warnings {
        eprintln!("warning: {warning}");
    }
    options.listen = listen::listeners(flags)?;
    fit_memory(&mut options)?;
    // Here a name without a slash is a file too.
    options.region = flags.value("memory-file").map(RegionPlace::at);
    options.udp = listen::datagram_addresses(flags)?;
    let inherited =
        guira_server::inherited_sockets().map_err(Failure::system("cannot take over a socket"))?;
    let is_anywhere = ["listen", "port", "unix-socket"].into_iter().any(|flag| flags.value(flag).is_some());
    let coredumps = if flags.has("enable-coredumps") { Coredumps::Wanted } else { Coredumps::AsTheyAre };
    process::set_limits(options.max_connections, coredumps)?;
    let identity = Identity::of_memcached(flags.value("user"))?;
    let secrets = guira_server::Secrets::load(&options)?;
    guira_server::check(&options, &secrets, &inherited)?;
    identity.assume()?;
    let (mut pidfile, mut ports) = (flags.value("pidfile").map(PathBuf::from), ports::file());
    if flags.has("daemon") {
        let place = if flags.has("enable-coredumps") { Place::Kept } else { Place::Root };
        if place == Place::Root {
            from_anywhere(&mut options, [&mut pidfile, &mut ports])?;
        }
        process::daemonize(if flags.has("verbose") { Terminal::Kept } else { Terminal::Dropped }, place)?;
    }
    log::start(flags.count("verbose"));
    // After it went to the background: the other server has to know the process that takes over.
    let origin = Origin::find(&options, inherited)?;
    if !origin.inherited.is_empty() && !is_anywhere {
        options.listen.clear();
    }
    // Only a server that serves writes its process number: one whose address is taken must not overwrite the other's.
    let announce = |running: &Running| {
        ports::write(ports.as_deref(), running).map_err(Failure::system("cannot write the file of ports"))?;
        pidfile.as_deref().map(PidFile::create).transpose()
    };
    run::serve(&options, secrets, origin, announce, Keeps::OnlyForUsr1)
}

/// Names all files so that they are found from anywhere: the server is about to leave the directory that it was started in.
fn from_anywhere(options: &mut Options, others: [&mut Option<PathBuf>; 2]) -> Result<(), Failure> {
    let mut files: Vec<&mut PathBuf> = others.into_iter().flatten().collect();
    files.extend(options.auth_file.as_mut());
    files.extend(options.takeover.as_mut());
    files.extend([&mut options.tls_cert, &mut options.tls_key, &mut options.tls_ca].into_iter().flatten());
    files.extend(options.listen.iter_mut().filter_map(|listen| match &mut listen.address {
        Address::Unix(path) => Some(path),
        Address::Tcp(_) => None,
    }));
    let system = Failure::system("cannot find the directory that it was started in");
    let absolute = |path: &Path| std::path::absolute(path);
    let result = files.into_iter().try_for_each(|file| {
        *file = absolute(file)?;
        Ok(())
    });
    result
        .and_then(|()| {
            if let Some(region) = &mut options.region {
                *region = RegionPlace::at(absolute(region.path())?);
            }
            Ok(())
        })
        .map_err(system)
}

/// The options of `guira serve` that the flags set.
fn translate(flags: &Flags, warnings: &mut Vec<String>) -> Result<CliOptions, Failure> {
    let extended = flags.extended(warnings)?;
    let mut options = flags.options(warnings).or(extended);
    match (flags.has("enable-ssl"), options.is_given("tls-cert")) {
        (true, false) => {
            return Err(Failure::usage("-Z needs a certificate: -o ssl_chain_cert=<file>"));
        }
        (true, true) => {}
        // memcached's options of TLS count only with -Z.
        (false, _) => options.remove_all(|name, _| name.starts_with("tls-")),
    }
    log_in(flags, &mut options)?;
    options = options.or(CliOptions::of([("memory", "64MiB"), ("workers", "4")]));
    cap_log_buffers(&mut options);
    Ok(options)
}

/// -S and -Y: who logs in, and by which protocol.
fn log_in(flags: &Flags, options: &mut CliOptions) -> Result<(), Failure> {
    let (sasl, has_file) = (flags.has("enable-sasl"), options.is_given("auth-file"));
    if sasl && !has_file {
        options.set("auth-file", sasl_file()?);
    }
    match (options.get("protocol"), sasl, has_file) {
        (Some(name), true, _) if name != "binary" => Err(Failure::usage(
            "-S: SASL is part of the binary protocol, so that -B cannot be another".to_owned(),
        )),
        (Some(name), false, true) if name != "ascii" => Err(Failure::usage(
            "-Y: the auth file is for the text protocol, so that -B must be ascii".to_owned(),
        )),
        (None, true, false) => {
            options.set("protocol", "binary");
            Ok(())
        }
        (None, false, true) => {
            options.set("protocol", "ascii");
            Ok(())
        }
        _ => Ok(()),
    }
}

/// memcached takes log buffers of any size; here they are part of the memory.
fn cap_log_buffers(options: &mut CliOptions) {
    let size = |options: &CliOptions, name: &str| options.get(name)?.parse::<Size>().ok();
    let Some(memory) = size(options, "memory") else { return };
    for name in ["watcher-buffer", "worker-log-buffer"] {
        if size(options, name) > Some(memory) {
            options.set(name, memory.to_string());
        }
    }
}

/// The flags, and words of -o, that set an option of `guira serve`.
pub(crate) fn flags_of(option: &str) -> Vec<String> {
    let flags = FLAGS.iter().filter(|flag| flag.effect.option() == Some(option));
    let flags = flags.map(|flag| flag.short.map_or(format!("--{}", flag.long), |short| format!("-{short}")));
    let words = WORDS.iter().filter(|word| word.effect.option() == Some(option));
    flags.chain(words.map(|word| format!("-o {}", word.name))).collect()
}

/// Where SASL users are looked up if -Y names no file: where memcached looks.
fn sasl_file() -> Result<String, Failure> {
    std::env::var("MEMCACHED_SASL_PWDB").map_err(|_| {
        Failure::usage(
            "-S needs users: name a file of lines user:password with -Y, or in MEMCACHED_SASL_PWDB"
                .to_owned(),
        )
    })
}

/// Connections may be given no larger part of -m than this: what was meant for memcached, where it comes on top, leaves room for items.
const CONNECTIONS_PART: usize = 4;

/// memcached takes any read_buf_mem_limit, and any -m that holds two of the largest items.
fn fit_memory(options: &mut Options) -> Result<(), Failure> {
    if options.max_item_size.0 > options.memory.0 / 2 {
        return Err(Failure::usage("Cannot set item size limit higher than 1/2 of memory max."));
    }
    let most = Size(options.memory.0 / CONNECTIONS_PART);
    if options.connection_memory > Some(most) {
        eprintln!("warning: -o read_buf_mem_limit is too much of -m: {most} are used");
        options.connection_memory = Some(most);
    }
    Ok(())
}
