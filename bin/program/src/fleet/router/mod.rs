//! `guira router`, also run by a link called `mcrouter`: a router in mcrouter's place.

mod explain;
mod flags;
mod flavor;
mod listen;
mod params;
mod replay;
pub(crate) mod table;
mod tls;

use crate::fleet::etcd::EtcdFiles;
use crate::node::process::{Coredumps, PidFile, most_connections, set_limits, watch_refusals};
use clap::error::ErrorKind;
use flags::Flags;
use flavor::Flavor;
use guira_cli::failure::Failure;
use guira_cli::log;
use guira_cli::output;
use guira_control::EtcdOptions;
use guira_memory::available_memory;
use guira_router::{
    Flushes, HealthOptions, Identity, Limits, LogOptions, LogSync, LogVersion, Operations, Reloading,
    RouterOptions, Running, Source, Watches,
};
use guira_routing::{
    BigFlag, BigValues, CountedPools, DefaultQos, Logging, Settings, Timeouts, Unknown, WarmUps,
};
use guira_server::{Listen, Size};
use guira_transport::{Inherited, Listener, inherited_sockets};
use signal_hook::consts::{SIGHUP, SIGINT, SIGSYS, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::fs::File;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
pub(crate) use table::Manner;

/// A wrong use of the command line.
const EX_USAGE: u8 = 2;
/// Time limit for requests in progress when the router stops.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs with this command line, of which the first word is the program's name.
pub(crate) fn main(manner: Manner, words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut words: Vec<OsString> = words.into_iter().collect();
    if words.get(1).is_some_and(|word| word == replay::NAME) {
        return replay::main(&words[1..]);
    }
    let explains = words.get(1).is_some_and(|word| word == explain::WORD);
    if explains {
        words.remove(1);
    }
    let arguments: Vec<_> = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let line = if explains { Line::of_explain(words) } else { Line::read(manner, words) };
    let result = match line {
        Ok(line) if explains => explain::main(&line.flags),
        Ok(line) => run(manner, &line, &arguments.join(" ")),
        Err(WrongLine::Flavor(failure)) => Err(failure),
        Err(WrongLine::Usage(error)) => {
            // If this fails there is no place to report it.
            let _ = error.print();
            let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return if is_help { ExitCode::SUCCESS } else { ExitCode::from(EX_USAGE) };
        }
    };
    log::flush();
    result.map_or_else(|failure| crate::report(&failure), |()| ExitCode::SUCCESS)
}

/// A command line.
struct Line {
    flags: Flags,
    /// About its unknown options.
    notes: Vec<String>,
}

/// The reason why a command line cannot be used.
enum WrongLine {
    Usage(clap::Error),
    Flavor(Failure),
}

impl Line {
    fn of_explain(words: Vec<OsString>) -> Result<Self, WrongLine> {
        let flags = Flags::read(flags::explain_command(), words).map_err(WrongLine::Usage)?;
        Ok(Line { flags, notes: Vec::new() })
    }

    /// A flavor's options apply unless the command line has them.
    fn read(manner: Manner, mut words: Vec<OsString>) -> Result<Self, WrongLine> {
        let command = flags::command(manner);
        let mut notes = Vec::new();
        if manner == Manner::Mcrouter {
            let unknown = flags::take_unknown(&command, &mut words);
            notes.extend(unknown.iter().map(|option| format!("Unrecognized option: {option}")));
        }
        let flags = Flags::read(command.clone(), words.clone()).map_err(WrongLine::Usage)?;
        let Some(flavor) = flags.flavor() else {
            return Ok(Line { flags, notes });
        };
        let flavor = Flavor::read(flavor, manner).map_err(WrongLine::Flavor)?;
        let (of_flavor, unknown) = flavor.words(&flags);
        notes.extend(unknown);
        words.splice(1..1, of_flavor);
        Ok(Line { flags: Flags::read(command, words).map_err(WrongLine::Usage)?, notes })
    }
}

/// The command line with a description of everything, for its man page.
pub(crate) fn described(manner: Manner) -> clap::Command {
    flags::command(manner)
}

fn run(manner: Manner, line: &Line, command_line: &str) -> Result<(), Failure> {
    let flags = &line.flags;
    if flags.wants("help") {
        return output::print(&flags::command(manner).render_help().to_string());
    }
    if flags.wants("version") {
        return output::print(&format!("{}\n", flags.text("reported-version").unwrap_or_default()));
    }
    for note in line.notes.iter().cloned().chain(flags.notes()?) {
        eprintln!("note: {note}");
    }
    let options = options(flags, manner, source(flags)?, command_line)?;
    if let Some(mode) = flags.text("validate-config") {
        for warning in guira_router::check(&options)? {
            eprintln!("warning: {warning}");
        }
        if mode == "exit" {
            return output::print("the configuration is valid\n");
        }
    }
    let inherited = inherited_sockets().map_err(Failure::system("cannot take over a socket"))?;
    let mut inherited: Vec<Listener> = inherited.into_iter().filter_map(stream).collect();
    inherited.extend(match listen::inherited(flags) {
        Ok(listeners) => listeners,
        // As in mcrouter, an error of the configuration is reported first.
        Err(error) => {
            guira_router::check(&options)?;
            return Err(error);
        }
    });
    if options.listen.is_empty() && inherited.is_empty() {
        return Err(Failure::usage("no address to listen on: use --port or --listen"));
    }
    let verbose = u8::try_from(flags.number("verbosity")).unwrap_or(u8::MAX).saturating_add(1);
    match flags.text("log-path") {
        Some(path) => log::start_to(verbose, log_file(Path::new(path))?),
        None => log::start(verbose),
    }
    // Before the workers start, so that none of them takes the signals.
    let mut signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(Failure::system("cannot wait for signals"))?;
    set_limits(options.limits.connections, Coredumps::AsTheyAre)?;
    let running = guira_router::start(&options, inherited).inspect_err(|error| {
        if flags.text("log-path").is_some() {
            // Operator: Correct what the error names; the router has not started.
            tracing::error!("cannot start: {error}");
        }
    })?;
    let _pid_file = flags.text("pid-file").map(|path| PidFile::create(Path::new(path))).transpose()?;
    announce(&running)?;
    watch_refusals(&signals);
    for signal in signals.forever() {
        match signal {
            SIGHUP => running.reload(),
            SIGSYS => guira_sandbox::report(),
            _ => break,
        }
    }
    running
        .stop(PATIENCE)
        .map_err(|error| Failure::system("the router did not stop cleanly")(std::io::Error::other(error)))
}

fn stream(socket: Inherited) -> Option<Listener> {
    match socket {
        Inherited::Stream(listener) => Some(listener),
        Inherited::Datagram(_) => None,
    }
}

fn log_file(path: &Path) -> Result<File, Failure> {
    File::options().create(true).append(true).open(path).map_err(Failure::system("cannot write the log"))
}

/// Prints the addresses of the listeners.
fn announce(running: &Running) -> Result<(), Failure> {
    for warning in running.warnings() {
        tracing::warn!("{warning}");
    }
    let addresses = running.addresses().iter().map(|address| format!("listening on {address}\n"));
    let datagrams = running.udp_addresses().iter().map(|address| format!("listening on udp {address}\n"));
    let admin = running.admin_address().map(|address| format!("listening on admin {address}\n"));
    output::print(&addresses.chain(datagrams).chain(admin).collect::<String>())
}

fn options(
    flags: &Flags,
    manner: Manner,
    source: Source,
    command_line: &str,
) -> Result<RouterOptions, Failure> {
    let millis = |name: &str| Duration::from_millis(flags.number(name));
    let number = |name: &str| u32::try_from(flags.number(name)).unwrap_or(u32::MAX);
    check_times(flags)?;
    let client_tls = tls::clients(flags)?;
    Ok(RouterOptions {
        listen: listen::addresses(flags, client_tls.as_ref())?,
        backlog: number("tcp-listen-backlog"),
        udp: listen::datagrams(flags)?,
        client_tls,
        server_tls: tls::servers(flags)?,
        workers: workers(flags)?,
        source,
        config_params: params::of_configuration(flags)?,
        variations: params::variations(flags),
        settings: settings(flags)?,
        identity: Identity { service: name(flags, "service-name")?, router: router_name(flags)? },
        health: HealthOptions {
            timeouts_until_tko: Some(number("timeouts-until-tko"))
                .filter(|count| *count > 0 && !flags.has("disable-tko-tracking")),
            soft_tkos_max: number("maximum-soft-tkos"),
            probe_initial: millis("probe-timeout-initial"),
            probe_max: millis("probe-timeout-max"),
            inactive_after: millis("reset-inactive-connection-interval"),
        },
        keepalive: params::keepalive(flags)?,
        limits: Limits {
            connections: match flags.number("connection-limit") {
                // mcrouter's values for no limit of its own, of which 0 is its default.
                0 | 1 => most_connections(),
                most => most,
            },
            client_requests: number("max-client-outstanding-reqs"),
            server_inflight: number("target-max-inflight-requests"),
            server_pending: number("target-max-pending-requests"),
            worker_inflight: number("proxy-max-inflight-requests"),
            worker_throttled: number("proxy-max-throttled-requests"),
            connection_memory: connection_memory(flags)?,
        },
        failures: params::failures(flags, manner),
        flushes: if flags.has("enable-flush-cmd") { Flushes::PassedOn } else { Flushes::Refused },
        operations: if flags.has("allow-only-gets") { Operations::Gets } else { Operations::All },
        version: params::version(flags)?,
        reloading: Reloading {
            poll: millis("file-observer-poll-period-ms").max(Duration::from_millis(1)),
            delay: millis("file-observer-sleep-before-update-ms") + millis("reconfiguration-delay-ms"),
            watches: if flags.has("disable-reload-configs") { Watches::Nothing } else { Watches::Files },
        },
        cluster_nodes: listen::nodes(flags)?,
        dns_server: listen::dns_server(flags)?,
        etcd: etcd(flags)?,
        srv_hold_down: millis("srv-hold-down-ms"),
        admin: admin(flags)?,
        admin_token_file: flags.text("admin-token-file").map(PathBuf::from),
        deletes: deletes(flags)?,
        system_calls: params::system_calls(flags)?,
        dump: params::dump(flags),
        stats_files: params::stats_files(flags),
        command_line: command_line.to_owned(),
        shown: shown(flags)?,
    })
}

fn check_times(flags: &Flags) -> Result<(), Failure> {
    let times = ["server-timeout-ms", "probe-timeout-initial", "probe-timeout-max"];
    match times.into_iter().find(|name| flags.number(name) == 0) {
        Some(name) => Err(Failure::usage(format!("--{name} must be at least 1"))),
        None => Ok(()),
    }
}

/// Options by mcrouter's names of fields, with the name of the router in effect.
fn shown(flags: &Flags) -> Result<Vec<(String, String)>, Failure> {
    let router = router_name(flags)?;
    let mut shown = flags.shown();
    let names = shown.iter_mut().filter(|(field, _)| field == "router_name");
    names.for_each(|(_, value)| value.clone_from(&router));
    Ok(shown)
}

/// Options of etcd, if pools are in etcd.
fn etcd(flags: &Flags) -> Result<Option<EtcdOptions>, Failure> {
    let endpoints: Vec<String> = flags.texts("etcd").map(str::to_owned).collect();
    let path = |name: &str| flags.text(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let files = EtcdFiles {
        authority: path("etcd-ca-cert"),
        certificate: path("etcd-cert"),
        key: path("etcd-key"),
        login: path("etcd-login-file"),
    };
    let prefix = flags.text("etcd-prefix").unwrap_or_default().to_owned();
    if endpoints.is_empty() { Ok(None) } else { files.options(endpoints, prefix).map(Some) }
}

const CONNECTION_MEMORY_MIN: usize = 1 << 20;
/// Largest default of --connection-memory.
const CONNECTION_MEMORY_MAX: usize = 1 << 30;

/// Memory limit for partial requests and unread replies.
fn connection_memory(flags: &Flags) -> Result<usize, Failure> {
    let Some(text) = flags.text("connection-memory") else {
        let available = available_memory().unwrap_or(usize::MAX);
        return Ok((available / 4).clamp(CONNECTION_MEMORY_MIN, CONNECTION_MEMORY_MAX));
    };
    match text.parse() {
        Ok(Size(bytes @ CONNECTION_MEMORY_MIN..)) => Ok(bytes),
        Ok(_) => Err(Failure::usage(format!("--connection-memory: {text} is less than 1MiB"))),
        Err(error) => Err(Failure::usage(format!("--connection-memory: {error}"))),
    }
}

/// Settings of route handles outside the configuration.
fn settings(flags: &Flags) -> Result<Settings, Failure> {
    let millis = |name: &str| Duration::from_millis(flags.number(name));
    let unless_zero = |name: &str| Some(millis(name)).filter(|time| !time.is_zero());
    Ok(Settings {
        default_route: default_route(flags)?,
        unknown_prefix: match flags.has("send-invalid-route-to-default") {
            true => Unknown::ToDefault,
            false => Unknown::Refused,
        },
        timeouts: Timeouts {
            server: millis("server-timeout-ms"),
            within_cluster: unless_zero("within-cluster-timeout-ms"),
            cross_cluster: unless_zero("cross-cluster-timeout-ms"),
            cross_region: unless_zero("cross-region-timeout-ms"),
        },
        big_values: big_values(flags),
        shadow_limit: NonZeroU32::new(
            u32::try_from(flags.number("target-max-shadow-requests")).unwrap_or(u32::MAX),
        ),
        logging: if flags.has("enable-logging-route") { Logging::On } else { Logging::Off },
        qos: qos(flags)?,
        leases: Arc::default(),
        warm_ups: Arc::new(WarmUps::new(|what| tracing::info!("{what}"))),
        // The router reads their names from the file of `--pool-stats-config-file`.
        counted_pools: CountedPools::default(),
        counts: Arc::default(),
    })
}

/// Marks of packets to servers (DSCP).
fn qos(flags: &Flags) -> Result<Option<DefaultQos>, Failure> {
    let read = |name: &str, most: u8| match flags.number(name) {
        number if number <= most.into() => Ok(number as u8),
        number => Err(Failure::usage(format!("--{name} must be 0 to {most}, not {number}"))),
    };
    let qos = DefaultQos { class: read("default-qos-class", 4)?, path: read("default-qos-path", 3)? };
    Ok(flags.has("enable-qos").then_some(qos))
}

/// Options of split values.
fn big_values(flags: &Flags) -> Option<BigValues> {
    let number = |name: &str| NonZeroU32::new(u32::try_from(flags.number(name)).unwrap_or(u32::MAX));
    let is_hidden = flags.has("big-value-hide-reply-flag");
    Some(BigValues {
        threshold: number("big-value-split-threshold")?,
        batch: number("big-value-batch-size"),
        flag: if is_hidden { BigFlag::Hidden } else { BigFlag::Shown },
    })
}

/// The log of failed deletes.
fn deletes(flags: &Flags) -> Result<Option<LogOptions>, Failure> {
    let sync = match flags.text("asynclog-sync").unwrap_or_default() {
        "never" => LogSync::Never,
        "always" => LogSync::Always,
        other => {
            return Err(Failure::usage(format!("--asynclog-sync: '{other}' is neither never nor always")));
        }
    };
    let version = if flags.has("use-asynclog-version2") { LogVersion::Two } else { LogVersion::One };
    let rate = u32::try_from(flags.number("asynclog-replay-rate")).unwrap_or(u32::MAX);
    let folder = PathBuf::from(flags.text("async-dir").unwrap_or_default());
    let log = LogOptions { folder, version, sync, replay_rate: NonZeroU32::new(rate) };
    Ok((!flags.has("asynclog-disable")).then_some(log))
}

fn source(flags: &Flags) -> Result<Source, Failure> {
    let given = [
        flags.text("config").map(Source::named),
        flags.text("config-str").map(|text| Source::Text(text.to_owned())),
        flags.text("config-file").map(|path| Source::File(path.into())),
    ];
    // The first one takes precedence, as in mcrouter.
    let source = given.into_iter().flatten().next();
    source.ok_or_else(|| Failure::usage("no configuration: use --config file:PATH"))
}

fn admin(flags: &Flags) -> Result<Option<Listen>, Failure> {
    let place = flags.text("admin").map(guira_web::place).transpose();
    let place = place.map_err(|error| Failure::usage(format!("--admin: {error}")))?;
    if place.is_none() && flags.text("admin-token-file").is_some() {
        return Err(Failure::usage("--admin-token-file needs an admin listener: set --admin"));
    }
    Ok(place)
}

fn workers(flags: &Flags) -> Result<usize, Failure> {
    match flags.text("num-proxies").unwrap_or_default() {
        "auto" => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
        text => match text.parse() {
            Ok(workers @ 1..=1024) => Ok(workers),
            _ => Err(Failure::usage(format!(
                "--num-proxies: '{text}' is neither a number from 1 to 1024 nor auto"
            ))),
        },
    }
}

fn default_route(flags: &Flags) -> Result<Arc<str>, Failure> {
    let text = flags.text("route-prefix").unwrap_or_default();
    let parts: Vec<&str> = text.split('/').collect();
    match *parts {
        ["", region, cluster, ""] if !region.is_empty() && !cluster.is_empty() => Ok(text.into()),
        _ => Err(Failure::usage(format!("--route-prefix: '{text}' does not have the form /region/cluster/"))),
    }
}

/// The names of a service and a router are both part of names of files, which have at most 255 bytes.
const NAME_MAX: usize = 80;

/// Without a name, under mcrouter's, it is the first port.
fn router_name(flags: &Flags) -> Result<String, Failure> {
    match flags.text("router-name") {
        Some(_) => name(flags, "router-name"),
        None => Ok(flags.texts("port").next().unwrap_or("0").to_owned()),
    }
}

/// A name that can be part of a file's name.
fn name(flags: &Flags, option: &str) -> Result<String, Failure> {
    let text = flags.text(option).unwrap_or_default();
    let is_folder = matches!(text, "" | "." | "..");
    if is_folder || text.contains(|letter: char| letter == '/' || letter.is_control()) {
        return Err(Failure::usage(format!("--{option}: '{}' is not a valid name", text.escape_debug())));
    }
    if text.len() > NAME_MAX {
        return Err(Failure::usage(format!("--{option}: a name has at most {NAME_MAX} bytes")));
    }
    Ok(text.to_owned())
}

/// The command line of the words behind `guira router`, and the number of words of `guira router …` before it.
#[cfg(test)]
pub(crate) fn parser(words: &[String]) -> (clap::Command, usize) {
    match words.first().map(String::as_str) {
        Some(replay::NAME) => (replay::command(), 2),
        Some(explain::WORD) => (flags::explain_command(), 2),
        _ => (flags::command(Manner::Guira), 1),
    }
}
