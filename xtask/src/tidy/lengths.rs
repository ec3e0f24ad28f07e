//! Files, functions and structs stay short.

use super::Finding;
use super::exemptions::{Exemptions, FILE, LongFunction};
use super::source::{Source, Struct};

const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 70;
const STRUCT_FIELDS: usize = 12;

/// Folders whose structs are checked.
const PRODUCT: &[&str] = &["base/", "engines/", "node/", "fleet/"];

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
    findings.extend(large_structs(sources, exemptions));
    findings
}

fn large_structs(sources: &[Source], exemptions: &Exemptions) -> Vec<Finding> {
    let checked =
        sources.iter().filter(|source| PRODUCT.iter().any(|folder| source.path.starts_with(folder)));
    let large: Vec<_> = checked
        .flat_map(|source| source.structs().into_iter().map(move |of| (source.path.as_str(), of)))
        .filter(|(_, of)| of.fields > STRUCT_FIELDS)
        .collect();
    let is_of =
        |exempt: &LongFunction, path: &str, of: &Struct| exempt.path == path && exempt.name == of.name;
    let found = large.iter().filter(|(path, of)| !exemptions.r#struct.iter().any(|it| is_of(it, path, of)));
    let found = found.map(|(path, of)| {
        let what = format!("{} has {} fields, {STRUCT_FIELDS} are allowed", of.name, of.fields);
        Finding::new(path, of.line, what, "group fields that change together into a part")
    });
    let unused = exemptions.r#struct.iter().filter(|it| !large.iter().any(|(path, of)| is_of(it, path, of)));
    let unused = unused.map(|it| {
        let what = format!("{} of {} is missing or small enough", it.name, it.path);
        Finding::new(FILE, 1, what, "remove the exemption")
    });
    found.chain(unused).collect()
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
    fn large_structs_are_found() {
        let source = |fields: usize| {
            let field = "    pub(crate) a: fn(&A<B, C>) -> (D, E), // x, y\n";
            Source::new(
                "base/a.rs",
                &format!("#[derive(Debug)]\nstruct Large<T> {{\n{}}}\n", field.repeat(fields)),
            )
        };
        let found = |fields, exemptions| check(&[source(fields)], &parse(exemptions).expect("exemptions"));
        assert!(found(12, "").is_empty());
        assert_eq!(found(13, "")[0].what, "Large has 13 fields, 12 are allowed");
        let exemption = "[[struct]]\npath = \"base/a.rs\"\nname = \"Large\"\nreason = \"a table\"\n";
        assert!(found(13, exemption).is_empty());
        assert_eq!(found(12, exemption).len(), 1);
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
