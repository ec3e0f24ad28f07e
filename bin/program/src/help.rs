//! The list of commands in `guira --help`, in groups.

use clap::Command;

/// The commands that are shown, by what they are for.
pub(crate) const GROUPS: &[(&str, &[&str])] = &[
    ("The cache", &["serve", "memcached", "top", "ready"]),
    ("The fleet", &["router", "mcrouter", "invalidate", "check", "probe", "copy", "fleet"]),
    ("The laboratory (guira-lab)", &["load", "replay", "sim", "capacity", "bench"]),
    ("More", &["completions", "man", "help"]),
];

/// Columns in front of what a command does.
const INDENT: usize = 14;

/// The command line, whose help shows the commands in groups.
pub(crate) fn grouped(command: Command) -> Command {
    let list = list(&command);
    command
        .help_template("{about}\n\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}")
        .after_help(list)
}

fn list(command: &Command) -> String {
    let mut text = String::new();
    for (heading, names) in GROUPS {
        let tasks = names.iter().filter_map(|name| {
            let about = match command.find_subcommand(name) {
                Some(task) => task.get_about()?.to_string(),
                None if *name == "help" => "Print this message or the help of a command".to_owned(),
                None => return None,
            };
            Some(format!("\n  {name:<INDENT$}{about}"))
        });
        let tasks: String = tasks.collect();
        if !tasks.is_empty() {
            let gap = if text.is_empty() { "" } else { "\n\n" };
            text.push_str(&format!("{gap}{heading}:{tasks}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "fleet")]
    #[test]
    fn every_command_that_is_shown_is_in_one_group() {
        let command = crate::command();
        let shown = command.get_subcommands().filter(|task| !task.is_hide_set()).map(Command::get_name);
        let mut shown: Vec<&str> = shown.chain(["help"]).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(shown, grouped);
        assert!(list(&command).lines().all(|line| line.len() <= guira_cli::HELP_WIDTH));
    }
}
