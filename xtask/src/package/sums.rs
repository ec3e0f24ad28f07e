//! The sums of all packages, and the comparison of two packagings.

use super::kit::Kit;

/// The file of the sums, in the form of `sha256sum --check`.
pub(super) const NAME: &str = "SHA256SUMS";

/// The packages in a folder of them.
const PACKAGES: &str = "find . -maxdepth 1 -type f \\( -name '*.deb' -o -name '*.tar' -o -name '*.tar.gz' -o -name '*.whl' \\) \
     -printf '%f\\n' | sort";

/// Writes the sums of the packages.
pub(super) fn make(kit: &Kit) -> Result<(), String> {
    let line = format!("{PACKAGES} | xargs sha256sum > {NAME}");
    kit.shell(&kit.out, &line).map(drop)
}

/// Whether both folders have the same packages.
pub(super) fn compare(one: &Kit, other: &Kit) -> Result<(), String> {
    let read = |kit: &Kit| {
        let path = kit.out.join(NAME);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let different = differences(&read(one)?, &read(other)?);
    if different.is_empty() {
        return Ok(());
    }
    Err(format!(
        "two packagings of the same programs differ in {}: compare {} and {}, as with diffoscope",
        different.join(", "),
        one.out.display(),
        other.out.display()
    ))
}

/// The names of files whose sums differ, or that only one list has.
pub(super) fn differences(one: &str, other: &str) -> Vec<String> {
    let only = |one: &str, other: &str| {
        let lines = one.lines().filter(|line| !other.lines().any(|known| known == *line));
        lines.filter_map(|line| line.split_whitespace().last().map(str::to_owned)).collect::<Vec<_>>()
    };
    let mut names = only(one, other);
    names.extend(only(other, one));
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_with_other_sums_and_missing_ones_are_named() {
        let one = "00  a.deb\n01  b.tar.gz\n";
        assert_eq!(differences(one, one), Vec::<String>::new());
        assert_eq!(differences(one, "00  a.deb\n02  b.tar.gz\n"), ["b.tar.gz"]);
        assert_eq!(differences(one, "01  b.tar.gz\n03  c.tar\n"), ["a.deb", "c.tar"]);
    }
}
