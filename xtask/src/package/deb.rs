//! A package for Debian and its relatives, by dpkg-deb. What else it consists of lies in deploy/debian.

use super::files::{self, DOCUMENTS, HOST};
use super::kit::Kit;
use super::licenses;
use super::tree::Tree;

/// The revision of the package behind the version of what it contains.
const REVISION: u32 = 1;

const SCRIPTS: [&str; 4] = ["preinst", "postinst", "prerm", "postrm"];

/// Writes `guira_VERSION_ARCHITECTURE.deb`.
pub(super) fn make(kit: &Kit) -> Result<(), String> {
    let tree = Tree::new(kit.out.join("deb"))?;
    files::put(kit, &tree, HOST)?;
    files::put(kit, &tree, DOCUMENTS)?;
    files::put_pages(kit, &tree)?;
    tree.copy(&kit.dynamic, "usr/bin/guira", 0o755)?;
    licenses::put(kit, &tree, "usr/share/doc/guira/")?;
    let version = format!("{}-{REVISION}", kit.version);
    let doc = "usr/share/doc/guira";
    tree.copy(&kit.root.join("deploy/debian/copyright"), &format!("{doc}/copyright"), 0o644)?;
    tree.copy(&kit.root.join("deploy/debian/lintian-overrides"), "usr/share/lintian/overrides/guira", 0o644)?;
    tree.copy(&kit.root.join("CHANGELOG.md"), &format!("{doc}/changelog"), 0o644)?;
    tree.write(&format!("{doc}/changelog.Debian"), 0o644, changelog(kit, &version)?)?;
    kit.shell(
        tree.folder(),
        &format!("strip --remove-section=.comment usr/bin/guira; gzip -9n usr/share/man/man1/* {doc}/changelog {doc}/changelog.Debian {doc}/{} {doc}/{}", licenses::NAME, licenses::OF_RUST),
    )?;
    describe(kit, &tree, &version)?;
    kit.shell(
        &kit.out,
        &format!("rm -f *.deb; dpkg-deb --root-owner-group -Zxz -z{} --build deb .", kit.effort),
    )
    .map(drop)
}

/// The folder of what dpkg reads: who it is, what it needs, what is configuration, sums, and scripts.
fn describe(kit: &Kit, tree: &Tree, version: &str) -> Result<(), String> {
    let source = kit.root.join("deploy/debian");
    let sums = kit.shell(tree.folder(), "find usr -type f -print0 | sort -z | xargs -0 md5sum")?;
    let size = kit.shell(
        tree.folder(),
        "find . -type f -printf '%s\\n' | awk '{ n += int(($1 + 1023) / 1024) } END { print n }'",
    )?;
    let control = std::fs::read_to_string(source.join("control")).map_err(|error| error.to_string())?;
    let control = control
        .replace("@VERSION@", version)
        .replace("@ARCHITECTURE@", &kit.shell(&kit.out, "dpkg --print-architecture")?)
        .replace("@SIZE@", &size)
        .replace("@DEPENDS@", &libraries(kit)?);
    let configuration = HOST.iter().filter(|row| row.1.starts_with("etc/"));
    let configuration: String = configuration.map(|row| format!("/{}\n", row.1)).collect();
    tree.write("DEBIAN/control", 0o644, control)?;
    tree.write("DEBIAN/conffiles", 0o644, configuration)?;
    tree.write("DEBIAN/md5sums", 0o644, sums + "\n")?;
    SCRIPTS.iter().try_for_each(|name| {
        let script = std::fs::read_to_string(source.join(name)).map_err(|error| error.to_string())?;
        let script = script.replace("@OTHERS@", &files::other_services());
        tree.write(&format!("DEBIAN/{name}"), 0o755, script)
    })
}

/// The packages of the libraries that the binary needs, in the versions that have what it uses of them.
fn libraries(kit: &Kit) -> Result<String, String> {
    // dpkg-shlibdeps wants the folder of a source package.
    let source = Tree::new(kit.out.join("shlibs"))?;
    source.write("debian/control", 0o644, "Source: guira\n\nPackage: guira\nArchitecture: any\n")?;
    let found = kit.shell(source.folder(), &format!("dpkg-shlibdeps -O '{}'", kit.dynamic.display()))?;
    let depends = found.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    depends.map(str::to_owned).ok_or(format!("dpkg-shlibdeps says nothing of the libraries: {found}"))
}

fn changelog(kit: &Kit, version: &str) -> Result<String, String> {
    let control =
        std::fs::read_to_string(kit.root.join("deploy/debian/control")).map_err(|error| error.to_string())?;
    let maintainer =
        control.lines().find_map(|line| line.strip_prefix("Maintainer: ")).ok_or("no Maintainer")?;
    let date = kit.shell(&kit.out, &format!("date -R -d @{}", kit.epoch))?;
    Ok(format!(
        "guira ({version}) unstable; urgency=medium\n\n  * {} as it is released: changelog.gz says what is new.\n\n -- {maintainer}  {date}\n",
        kit.version
    ))
}
