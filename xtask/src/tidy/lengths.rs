//! Files and functions stay short.

use super::Finding;
use super::exemptions::{Exemptions, FILE};
use super::source::Source;

const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 70;

/// Checks the lengths, and that every exemption is needed.
pub(crate) fn check(sources: &[Source], exemptions: &Exemptions) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut long_files = Vec::new();
    let mut long_functions = Vec::new();
    for source in sources {
        let lines = source.line_count();
        if lines > FILE_LINES {
            long_files.push(source.path.as_str());
            if !exemptions.file.iter().any(|file| file.path == source.path) {
                let what = format!("the file has {lines} lines, {FILE_LINES} are allowed");
                findings.push(Finding::new(&source.path, 1, what, "split it by what its parts are about"));
            }
        }
        for function in source.functions() {
            if function.length <= FUNCTION_LINES {
                continue;
            }
            let exempt =
                exemptions.function.iter().any(|long| long.path == source.path && long.name == function.name);
            if !exempt {
                let what =
                    format!("{} has {} lines, {FUNCTION_LINES} are allowed", function.name, function.length);
                findings.push(Finding::new(
                    &source.path,
                    function.line,
                    what,
                    "name its steps and make them functions",
                ));
            }
            long_functions.push((source.path.as_str(), function.name));
        }
    }
    findings.extend(unused(exemptions, &long_files, &long_functions));
    findings
}

fn unused(exemptions: &Exemptions, files: &[&str], functions: &[(&str, String)]) -> Vec<Finding> {
    let remedy = "remove the exemption";
    let unused_files =
        exemptions.file.iter().filter(|file| !files.contains(&file.path.as_str())).map(|file| {
            let what = format!("{} is missing or short enough", file.path);
            Finding::new(FILE, 1, what, remedy)
        });
    let unused_functions = exemptions
        .function
        .iter()
        .filter(|long| !functions.iter().any(|(path, name)| long.path == *path && long.name == *name));
    let unused_functions = unused_functions.map(|long| {
        let what = format!("{} of {} is missing or short enough", long.name, long.path);
        Finding::new(FILE, 1, what, remedy)
    });
    unused_files.chain(unused_functions).collect()
}

#[cfg(test)]
mod tests {
    use super::super::exemptions::parse;
    use super::*;

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    work();\n".repeat(lines - 2))
    }

    fn findings(content: &str, exemptions: &str) -> Vec<Finding> {
        check(&[Source::new("a.rs", content)], &parse(exemptions).expect("exemptions"))
    }

    #[test]
    fn long_files_are_found() {
        assert!(findings(&"// x\n".repeat(800), "").is_empty());
        assert_eq!(findings(&"// x\n".repeat(801), "").len(), 1);
    }

    #[test]
    fn long_functions_are_found() {
        assert!(findings(&function(70), "").is_empty());
        let found = findings(&function(71), "");
        assert_eq!(found[0].what, "long has 71 lines, 70 are allowed");
    }

    #[test]
    fn an_exemption_helps_while_it_is_needed() {
        let exemption = "[[function]]\npath = \"a.rs\"\nname = \"long\"\nreason = \"a table\"\n";
        assert!(findings(&function(71), exemption).is_empty());
        assert_eq!(findings(&function(70), exemption).len(), 1);
        let unknown = "[[file]]\npath = \"b.rs\"\nreason = \"a table\"\n";
        assert_eq!(findings("", unknown).len(), 1);
    }
}
