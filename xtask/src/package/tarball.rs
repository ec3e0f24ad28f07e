//! A static binary with all that belongs to it, in a tarball.

use super::files::{self, DOCUMENTS, HOST};
use super::kit::Kit;
use super::licenses;
use super::machine::GUIRA;
use super::sbom::{Form, Program};
use super::tree::Tree;

/// Writes `guira-VERSION-linux-MACHINE.tar.gz`, with one folder of this name in it.
pub(super) fn make(kit: &Kit) -> Result<(), String> {
    let name = format!("guira-{}-linux-{}", kit.version, kit.machine.name());
    let tree = Tree::new(kit.out.join(&name))?;
    files::put(kit, &tree, HOST)?;
    files::put(kit, &tree, DOCUMENTS)?;
    files::put_pages(kit, &tree, GUIRA)?;
    tree.copy(&kit.standalone.join(GUIRA), "usr/bin/guira", 0o755)?;
    for document in ["LICENSE", "README.md", "CHANGELOG.md"] {
        tree.copy(&kit.root.join(document), document, 0o644)?;
    }
    licenses::put(kit, &tree, Program { name: GUIRA, form: Form::Static }, "")?;
    kit.strip(tree.folder(), "usr/bin/guira")?;
    kit.shell(&kit.out, &format!("{} -cf - '{name}' | {} > '{name}.tar.gz'", kit.tar(), kit.gzip())).map(drop)
}
