//! A package for Debian and its relatives, by dpkg-deb. What else it consists of lies in deploy/debian.

use super::files::{self, DOCUMENTS, HOST, Row};
use super::kit::Kit;
use super::licenses;
use super::machine::{GUIRA, LAB};
use super::sbom::{Form, Program};
use super::tree::Tree;

/// The revision of a package behind the version of what it contains.
const REVISION: u32 = 1;

/// What a package of Debian has.
struct Package {
    /// Its name, which is that of its program.
    name: &'static str,
    source: &'static str,
    files: &'static [&'static [Row]],
    scripts: &'static [&'static str],
}

const PACKAGES: [Package; 2] = [
    Package {
        name: GUIRA,
        source: "deploy/debian",
        files: &[HOST, DOCUMENTS],
        scripts: &["preinst", "postinst", "prerm", "postrm"],
    },
    Package { name: LAB, source: "deploy/debian/lab", files: &[], scripts: &[] },
];

/// Writes `NAME_VERSION_ARCHITECTURE.deb` of each package.
pub(super) fn make(kit: &Kit) -> Result<(), String> {
    kit.shell(&kit.out, "rm -f *.deb")?;
    let packed = PACKAGES.iter().filter(|package| kit.machine.programs().contains(&package.name));
    packed.into_iter().try_for_each(|package| package.make(kit))
}

impl Package {
    fn make(&self, kit: &Kit) -> Result<(), String> {
        let name = self.name;
        let tree = Tree::new(kit.out.join("deb").join(name))?;
        let version = format!("{}-{REVISION}", kit.version);
        self.files.iter().try_for_each(|rows| files::put(kit, &tree, rows))?;
        files::put_pages(kit, &tree, name)?;
        tree.copy(&kit.dynamic.join(name), &format!("usr/bin/{name}"), 0o755)?;
        self.document(kit, &tree, &version)?;
        self.describe(kit, &tree, &version)?;
        let line = format!("dpkg-deb --root-owner-group -Zxz -z{} --build deb/{name} .", kit.effort);
        kit.shell(&kit.out, &line).map(drop)
    }

    /// What Debian wants to be told in `usr/share/doc`.
    fn document(&self, kit: &Kit, tree: &Tree, version: &str) -> Result<(), String> {
        let name = self.name;
        let doc = format!("usr/share/doc/{name}");
        licenses::put(kit, tree, Program { name, form: Form::Dynamic }, &format!("{doc}/"))?;
        tree.copy(&kit.root.join("deploy/debian/copyright"), &format!("{doc}/copyright"), 0o644)?;
        let overrides = kit.root.join(self.source).join("lintian-overrides");
        tree.copy(&overrides, &format!("usr/share/lintian/overrides/{name}"), 0o644)?;
        tree.copy(&kit.root.join("CHANGELOG.md"), &format!("{doc}/changelog"), 0o644)?;
        tree.write(&format!("{doc}/changelog.Debian"), 0o644, self.changelog(kit, version)?)?;
        let zipped = [licenses::NAME, licenses::OF_RUST, "changelog", "changelog.Debian"];
        let zipped = zipped.map(|file| format!("{doc}/{file}")).join(" ");
        kit.strip(tree.folder(), &format!("usr/bin/{name}"))?;
        kit.shell(tree.folder(), &format!("gzip -9n usr/share/man/man1/* {zipped}")).map(drop)
    }

    /// The folder of what dpkg reads: who it is, what it needs, what is configuration, sums, and scripts.
    fn describe(&self, kit: &Kit, tree: &Tree, version: &str) -> Result<(), String> {
        let source = kit.root.join(self.source);
        let sums = kit.shell(tree.folder(), "find usr -type f -print0 | sort -z | xargs -0 md5sum")?;
        let size = kit.shell(
            tree.folder(),
            "find . -type f -printf '%s\\n' | awk '{ n += int(($1 + 1023) / 1024) } END { print n }'",
        )?;
        let control = std::fs::read_to_string(source.join("control")).map_err(|error| error.to_string())?;
        let control = control
            .replace("@VERSION@", version)
            .replace("@ARCHITECTURE@", kit.machine.debian())
            .replace("@SIZE@", &size)
            .replace("@DEPENDS@", &self.libraries(kit)?);
        let configuration = self.files.iter().copied().flatten().filter(|row| row.1.starts_with("etc/"));
        let configuration: String = configuration.map(|row| format!("/{}\n", row.1)).collect();
        tree.write("DEBIAN/control", 0o644, control)?;
        tree.write("DEBIAN/md5sums", 0o644, sums + "\n")?;
        if !configuration.is_empty() {
            tree.write("DEBIAN/conffiles", 0o644, configuration)?;
        }
        self.scripts.iter().try_for_each(|name| {
            let script = std::fs::read_to_string(source.join(name)).map_err(|error| error.to_string())?;
            let script = script.replace("@OTHERS@", &files::other_services());
            tree.write(&format!("DEBIAN/{name}"), 0o755, script)
        })
    }

    /// The packages of the libraries that the binary needs, in the versions that have what it uses of them.
    fn libraries(&self, kit: &Kit) -> Result<String, String> {
        // dpkg-shlibdeps wants the folder of a source package.
        let source = Tree::new(kit.out.join("shlibs"))?;
        source.write("debian/control", 0o644, "Source: guira\n\nPackage: guira\nArchitecture: any\n")?;
        let found = kit.shell(
            source.folder(),
            &format!("{} '{}'", kit.machine.shlibdeps(), kit.dynamic.join(self.name).display()),
        )?;
        let depends = found.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
        // The libraries of a cross compiler lie in packages of their own.
        depends
            .map(|it| it.replace("-arm64-cross", "").replace(":arm64", ""))
            .ok_or(format!("dpkg-shlibdeps says nothing of the libraries: {found}"))
    }

    fn changelog(&self, kit: &Kit, version: &str) -> Result<String, String> {
        let control = std::fs::read_to_string(kit.root.join("deploy/debian/control"))
            .map_err(|error| error.to_string())?;
        let maintainer =
            control.lines().find_map(|line| line.strip_prefix("Maintainer: ")).ok_or("no Maintainer")?;
        let date = kit.shell(&kit.out, &format!("date -R -d @{}", kit.epoch))?;
        Ok(format!(
            "{} ({version}) unstable; urgency=medium\n\n  * {} as it is released: changelog.gz says what is new.\n\n -- {maintainer}  {date}\n",
            self.name, kit.version
        ))
    }
}
