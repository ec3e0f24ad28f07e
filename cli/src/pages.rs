//! `guira pages`: man pages and completions of shells, made of the command line itself.

use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;

use crate::failure::Failure;
use crate::{memcached, router, whole};

/// Arguments of `guira pages`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder that they are written to.
    folder: PathBuf,
}

/// The shells, and where below `share` of an installation each looks for completions.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/guira"),
    (Shell::Zsh, "zsh/vendor-completions/_guira"),
    (Shell::Fish, "fish/vendor_completions.d/guira.fish"),
];

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    write(&args.folder).map_err(Failure::system("cannot write the pages"))
}

/// Writes `man/man1` and the folders of the shells.
fn write(folder: &Path) -> io::Result<()> {
    // What is hidden is for the project itself, or for the image.
    let shown = shown(crate::command());
    for (shell, place) in SHELLS {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut shown.clone(), "guira", &mut text);
        save(folder, place, &text)?;
    }
    page(folder, shown.clone(), "guira")?;
    for task in shown.get_subcommands() {
        let name = format!("guira-{}", task.get_name());
        let task = match task.get_name() {
            crate::MEMCACHED => memcached::described(),
            "router" => router::described(),
            _ => task.clone(),
        };
        page(folder, task, &name)?;
    }
    Ok(())
}

/// The command without its hidden subcommands.
fn shown(command: Command) -> Command {
    let tasks: Vec<Command> = command.get_subcommands().filter(|task| !task.is_hide_set()).cloned().collect();
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new("guira")
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .disable_help_subcommand(true)
        .subcommands(tasks)
}

fn page(folder: &Path, command: Command, name: &str) -> io::Result<()> {
    let spaced = name.replacen('-', " ", 1);
    let command = command.version(env!("CARGO_PKG_VERSION")).display_name(name.to_owned()).bin_name(spaced);
    let mut text = Vec::new();
    clap_mangen::Man::new(command).manual("Guira").render(&mut text)?;
    save(folder, &format!("man/man1/{name}.1"), &text)
}

fn save(folder: &Path, place: &str, bytes: &[u8]) -> io::Result<()> {
    let path = folder.join(place);
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
    whole::write(&path, text)
}
