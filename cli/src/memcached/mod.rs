//! `guira memcached`, and whatever is called `memcached`: memcached's own command line in front of this server.

#[cfg(test)]
mod documented;
mod extended;
mod help;
mod listen;
mod ports;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgAction, Args as _, FromArgMatches as _};
use guira_server::{Address, Options, RegionPlace, Running, Size, VERSION_SPOKEN};

use crate::failure::Failure;
use crate::log;
use crate::options::Told;
use crate::process::{self, Coredumps, Identity, PidFile, Place, Terminal};
use crate::run::{self, Keeps};

/// What `sysexits.h` calls a wrong use of the command line; memcached ends so too.
const EX_USAGE: u8 = 64;

/// What memcached is given on its command line.
///
/// Sizes are in memcached's units. The comments say what is not the same as in memcached.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true, disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Args {
    #[arg(short = 'p', long = "port", value_name = "num")]
    port: Option<i32>,
    #[arg(short = 'U', long = "udp-port", value_name = "num")]
    udp_port: Option<i32>,
    #[arg(short = 's', long = "unix-socket", value_name = "file")]
    unix_socket: Option<String>,
    #[arg(short = 'a', long = "unix-mask", value_name = "mask")]
    unix_mask: Option<String>,
    #[arg(short = 'A', long = "enable-shutdown", action = ArgAction::Count)]
    enable_shutdown: u8,
    #[arg(short = 'l', long = "listen", value_name = "addr", action = ArgAction::Append)]
    listen: Vec<String>,
    #[arg(short = 'd', long = "daemon", action = ArgAction::Count)]
    daemon: u8,
    #[arg(short = 'r', long = "enable-coredumps", action = ArgAction::Count)]
    coredumps: u8,
    #[arg(short = 'u', long = "user", value_name = "user")]
    user: Option<String>,
    #[arg(short = 'm', long = "memory-limit", value_name = "num")]
    memory: Option<String>,
    #[arg(short = 'M', long = "disable-evictions", action = ArgAction::Count)]
    disable_evictions: u8,
    #[arg(short = 'k', long = "lock-memory", action = ArgAction::Count)]
    lock_memory: u8,
    #[arg(short = 'L', long = "enable-largepages", action = ArgAction::Count)]
    large_pages: u8,
    #[arg(short = 'f', long = "slab-growth-factor", value_name = "num")]
    growth_factor: Option<f64>,
    #[arg(short = 'n', long = "slab-min-size", value_name = "bytes")]
    slab_min_size: Option<u32>,
    #[arg(short = 'e', long = "memory-file", value_name = "file")]
    memory_file: Option<String>,
    #[arg(short = 'c', long = "conn-limit", value_name = "num")]
    conn_limit: Option<u64>,
    #[arg(short = 'v', long = "verbose", action = ArgAction::Count)]
    verbose: u8,
    #[arg(short = 'h', long = "help", action = ArgAction::Count)]
    help: u8,
    #[arg(short = 'i', long = "license", action = ArgAction::Count)]
    license: u8,
    #[arg(short = 'V', long = "version", action = ArgAction::Count)]
    version: u8,
    #[arg(short = 'P', long = "pidfile", value_name = "file")]
    pidfile: Option<String>,
    #[arg(short = 't', long = "threads", value_name = "num")]
    threads: Option<usize>,
    #[arg(short = 'R', long = "max-reqs-per-event", value_name = "num")]
    requests_per_event: Option<u32>,
    #[arg(short = 'C', long = "disable-cas", action = ArgAction::Count)]
    disable_cas: u8,
    #[arg(short = 'b', long = "listen-backlog", value_name = "num")]
    backlog: Option<i32>,
    #[arg(short = 'B', long = "protocol", value_name = "name")]
    protocol: Option<String>,
    #[arg(short = 'I', long = "max-item-size", value_name = "num")]
    max_item_size: Option<String>,
    #[arg(short = 'S', long = "enable-sasl", action = ArgAction::Count)]
    sasl: u8,
    #[arg(short = 'F', long = "disable-flush-all", action = ArgAction::Count)]
    disable_flush_all: u8,
    #[arg(short = 'X', long = "disable-dumping", action = ArgAction::Count)]
    disable_dumping: u8,
    #[arg(short = 'W', long = "disable-watch", action = ArgAction::Count)]
    disable_watch: u8,
    #[arg(short = 'Z', long = "enable-ssl", action = ArgAction::Count)]
    tls: u8,
    #[arg(short = 'Y', long = "auth-file", value_name = "file")]
    auth_file: Option<String>,
    #[arg(short = 'N', long = "napi-ids", value_name = "num")]
    napi_ids: Option<u32>,
    #[arg(short = 'D', value_name = "char")]
    delimiter: Option<String>,
    #[arg(short = 'o', long = "extended", value_name = "options", action = ArgAction::Append)]
    extended: Vec<String>,
    #[arg(long = "test-commands", action = ArgAction::Count)]
    test_commands: u8,
    /// memcached passes over words that are no options.
    #[arg(hide = true)]
    others: Vec<String>,
}

/// Reads a command line, of which the first word is the program's name.
fn read(words: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Args, clap::Error> {
    // What follows an option that has a value is the value, whatever it begins with.
    let command = Args::augment_args(clap::Command::new("memcached").infer_long_args(true))
        .mut_args(|option| {
            let takes_value = !option.is_positional() && option.get_action().takes_values();
            if takes_value { option.allow_hyphen_values(true) } else { option }
        })
        .override_usage("memcached [options]; see memcached -h");
    command.try_get_matches_from(words).and_then(|matches| Args::from_arg_matches(&matches))
}

/// Runs with this command line, of which the first word is the program's name.
pub(crate) fn main(words: impl IntoIterator<Item = std::ffi::OsString>) -> ExitCode {
    let args = match read(words) {
        Ok(args) => args,
        Err(error) => {
            // There is nobody to tell if this fails.
            let _ = error.print();
            let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return if asked { ExitCode::SUCCESS } else { ExitCode::from(EX_USAGE) };
        }
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let code = failure.report();
            if failure.is_usage() { ExitCode::from(EX_USAGE) } else { code }
        }
    }
}

/// Runs the server with memcached's options.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.help > 0 {
        return run::print(&help::text());
    }
    if args.license > 0 {
        return run::print(help::LICENSE);
    }
    if args.version > 0 {
        return run::print(&format!("memcached {VERSION_SPOKEN}\n"));
    }
    let (told, warnings) = translate(args)?;
    for warning in &warnings {
        eprintln!("warning: {warning}");
    }
    let (mut options, _) = told.resolve()?;
    options.listen = listen::listeners(args)?;
    fit_memory(&mut options);
    // Here a name without a slash is a file too.
    options.storage.region = args.memory_file.as_ref().map(RegionPlace::at);
    options.udp = listen::datagram_addresses(args)?;
    let inherited =
        guira_server::inherited_sockets().map_err(Failure::system("cannot take over a socket"))?;
    if !inherited.is_empty() && args.listen.is_empty() && args.port.is_none() && args.unix_socket.is_none() {
        options.listen.clear();
    }
    let coredumps = if args.coredumps > 0 { Coredumps::Wanted } else { Coredumps::AsTheyAre };
    process::set_limits(options.connections.max, coredumps)?;
    let identity = Identity::of_memcached(args.user.as_deref())?;
    let secrets = guira_server::Secrets::load(&options)?;
    guira_server::check(&options, &secrets, &inherited)?;
    identity.assume()?;
    let (mut pidfile, mut ports) = (args.pidfile.as_ref().map(PathBuf::from), ports::file());
    if args.daemon > 0 {
        let place = if args.coredumps > 0 { Place::Kept } else { Place::Root };
        if place == Place::Root {
            from_anywhere(&mut options, [&mut pidfile, &mut ports])?;
        }
        process::daemonize(if args.verbose > 0 { Terminal::Kept } else { Terminal::Dropped }, place)?;
    }
    log::start(args.verbose);
    // Only a server that serves has a file with its number: one whose address is taken must not take the other's.
    let announce = |running: &Running| {
        ports::write(ports.as_deref(), running).map_err(Failure::system("cannot write the file of ports"))?;
        pidfile.as_deref().map(PidFile::create).transpose()
    };
    run::serve(&options, secrets, inherited, announce, Keeps::OnlyForUsr1)
}

/// Names all files so that they are found from anywhere: the server is about to leave the directory that it was started in.
fn from_anywhere(options: &mut Options, others: [&mut Option<PathBuf>; 2]) -> Result<(), Failure> {
    let mut files: Vec<&mut PathBuf> = others.into_iter().flatten().collect();
    files.extend(options.auth_file.as_mut());
    if let Some(tls) = &mut options.tls {
        files.push(&mut tls.chain);
        files.extend(tls.key.as_mut());
        files.extend(tls.authorities.as_mut());
    }
    files.extend(options.listen.iter_mut().filter_map(|listen| match &mut listen.address {
        Address::Unix(path) => Some(path),
        Address::Tcp(_) => None,
    }));
    let system = Failure::system("cannot tell the directory that it was started in");
    let absolute = |path: &Path| std::path::absolute(path);
    let result = files.into_iter().try_for_each(|file| {
        *file = absolute(file)?;
        Ok(())
    });
    result
        .and_then(|()| {
            if let Some(region) = &mut options.storage.region {
                *region = RegionPlace::at(absolute(region.path())?);
            }
            Ok(())
        })
        .map_err(system)
}

/// The same in our own words, and what had to be left out.
fn translate(args: &Args) -> Result<(Told, Vec<String>), Failure> {
    let mut warnings = Vec::new();
    let extended = extended::read(&args.extended, &mut warnings)?;
    without_meaning(args, &mut warnings);
    let extended = with_or_without_tls(args, extended)?;
    let on = |count: u8| (count > 0).then_some(true);
    let auth_file = match (&args.auth_file, args.sasl > 0) {
        (Some(file), _) => Some(file.clone()),
        (None, true) => Some(sasl_file()?),
        (None, false) => None,
    };
    let protocol = match (&args.protocol, args.sasl > 0, args.auth_file.is_some()) {
        (Some(name), true, _) if name != "binary" => {
            return Err(Failure::Usage(
                "-S: SASL is part of the binary protocol, so that -B cannot be another".to_owned(),
            ));
        }
        (Some(name), false, true) if name != "ascii" => {
            return Err(Failure::Usage(
                "-Y: the auth file is for the text protocol, so that -B must be ascii".to_owned(),
            ));
        }
        (Some(name), ..) => Some(name.clone()),
        (None, true, false) => Some("binary".to_owned()),
        (None, false, true) => Some("ascii".to_owned()),
        (None, ..) => None,
    };
    let memory = memory(args)?;
    Ok((
        Told {
            unix_mode: args.unix_mask.clone(),
            protocol,
            auth_file,
            workers: Some(threads(args)?),
            memory: Some(memory),
            // An upper limit, of which no more than there is comes to bear.
            watcher_buffer: extended.watcher_buffer.map(|size| size.min(memory)),
            worker_log_buffer: extended.worker_log_buffer.map(|size| size.min(memory)),
            max_item_size: args.max_item_size.as_deref().map(item_size).transpose()?,
            growth_factor: args.growth_factor,
            smallest_item: args.slab_min_size,
            disable_evictions: on(args.disable_evictions),
            huge_pages: on(args.large_pages),
            lock_memory: on(args.lock_memory),
            max_connections: args.conn_limit,
            // As the system reads it: a negative one is as many as it allows.
            backlog: args.backlog.map(|backlog| u32::try_from(backlog).unwrap_or(i32::MAX as u32)),
            enable_shutdown: on(args.enable_shutdown),
            disable_flush_all: on(args.disable_flush_all),
            disable_dumping: on(args.disable_dumping),
            disable_watch: on(args.disable_watch),
            disable_cas: on(args.disable_cas),
            prefix_delimiter: args.delimiter.as_ref().and_then(|text| text.chars().next()),
            test_commands: on(args.test_commands).or(extended.test_commands),
            ..extended
        },
        warnings,
    ))
}

/// memcached's options of TLS count only with -Z, and have to make sense in any case.
fn with_or_without_tls(args: &Args, told: Told) -> Result<Told, Failure> {
    Ok(match (args.tls > 0, &told.tls_cert) {
        (true, None) => {
            return Err(Failure::Usage("-Z needs a certificate: -o ssl_chain_cert=<file>".to_owned()));
        }
        (true, Some(_)) => told,
        (false, _) => told.check_tls().map(|()| Told {
            tls_cert: None,
            tls_key: None,
            tls_ca: None,
            tls_verify: None,
            tls_min_version: None,
            tls_ciphers: None,
            tls_resumption: None,
            ..told
        })?,
    })
}

/// Tells of options that change nothing here.
fn without_meaning(args: &Args, warnings: &mut Vec<String>) {
    let mut ignored = |given: bool, name: &str, why: &str| {
        if given {
            warnings.push(format!("{name} changes nothing: {why} (docs/drop-in.md)"));
        }
    };
    ignored(args.requests_per_event.is_some(), "-R", "connections take turns by themselves");
    ignored(args.napi_ids.is_some(), "-N", "connections are dealt out in turn");
}

/// Where SASL users are looked up if -Y names no file: where memcached looks.
fn sasl_file() -> Result<String, Failure> {
    std::env::var("MEMCACHED_SASL_PWDB").map_err(|_| {
        Failure::Usage(
            "-S needs users: name a file of lines user:password with -Y, or in MEMCACHED_SASL_PWDB"
                .to_owned(),
        )
    })
}

fn threads(args: &Args) -> Result<usize, Failure> {
    match args.threads.unwrap_or(4) {
        0 => Err(Failure::Usage("-t: the number of threads must be greater than 0".to_owned())),
        threads => Ok(threads),
    }
}

/// -m is in MiB.
fn memory(args: &Args) -> Result<Size, Failure> {
    let text = args.memory.as_deref().unwrap_or("64").trim();
    let mebibytes: usize =
        text.parse().map_err(|_| Failure::Usage(format!("-m must be a number of MiB, not {text}")))?;
    Ok(Size(mebibytes.saturating_mul(1 << 20)))
}

/// Connections may be given no larger part of -m than this: what was meant for memcached, where it comes on top, leaves room for items.
const CONNECTIONS_PART: usize = 4;

/// memcached takes any -m and any read_buf_mem_limit; what a server needs is taken in any case.
fn fit_memory(options: &mut Options) {
    let wanted = options.connections.memory.take();
    raise_memory(options);
    let most = Size(options.memory.0 / CONNECTIONS_PART);
    if wanted > Some(most) {
        eprintln!("warning: -o read_buf_mem_limit is too much of -m: {most} are used");
    }
    options.connections.memory = wanted.map(|wanted| wanted.min(most));
    raise_memory(options);
}

fn raise_memory(options: &mut Options) {
    let least = guira_server::least_memory(options);
    if options.memory < least {
        eprintln!("warning: -m: {} is too little for the whole process: {least} are used", options.memory);
        options.memory = least;
    }
}

/// -I is a number of bytes, or of K or M.
fn item_size(text: &str) -> Result<Size, Failure> {
    let (number, unit) = match text.trim().char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        _ => (text.trim(), 1),
    };
    let bytes: usize = number
        .parse()
        .map_err(|_| Failure::Usage(format!("-I must be a number with k, m or no unit, not {text}")))?;
    Ok(Size(bytes.saturating_mul(unit)))
}
