//! Lists the contents of an Iceberg REST catalog, from the root namespace down.

use std::collections::BTreeMap;

use super::error::MigrateError;
use super::responses::TabularIdentifier;
use super::rest::{Response, Rest, plural};
use super::source_objects::{Contents, SourceNamespace, SourceTabular};
use slateberg_base::progress::Phase;
use slateberg_model::ident::TabularKind;

impl Rest {
    /// Lists the whole catalog. Reports the number of tables and views to `progress`.
    pub(super) async fn contents(&self, progress: &Phase) -> Result<Contents, MigrateError> {
        let mut contents = Contents::default();
        let mut pending: Vec<Vec<String>> = vec![Vec::new()];
        while let Some(parent) = pending.pop() {
            let children = self.children(&parent, &mut contents).await?;
            if !parent.is_empty() {
                let properties = self.properties(&parent, &mut contents).await?;
                for kind in [TabularKind::Table, TabularKind::View] {
                    let before = contents.tabulars.len();
                    self.tabulars(kind, &parent, &mut contents).await?;
                    progress.advance((contents.tabulars.len() - before) as u64);
                }
                contents.namespaces.push(SourceNamespace { levels: parent, properties });
            }
            pending.extend(children.into_iter().rev());
        }
        Ok(contents)
    }

    async fn children(
        &self,
        parent: &[String],
        contents: &mut Contents,
    ) -> Result<Vec<Vec<String>>, MigrateError> {
        let path = format!("{}/namespaces", self.prefix);
        let parent_parameter = (!parent.is_empty()).then(|| self.joined(parent));
        let listed = match self.list_all::<Vec<String>>(&path, parent_parameter).await? {
            Response::Success(listed) => listed,
            // A catalog without nested namespaces may not support this request.
            Response::Rejected(rejection) if !parent.is_empty() && rejection.is_missing() => {
                let reason = rejection.error("namespaces below it were not listed");
                contents.notes.push(format!("{}: {reason}", parent.join(".")));
                return Ok(Vec::new());
            }
            Response::Rejected(rejection) => return Err(rejection.error(&path)),
        };
        // Keep only direct children. Otherwise, the loop would be endless if a catalog ignores
        // `parent` and returns all namespaces.
        let is_child =
            |levels: &Vec<String>| levels.len() == parent.len() + 1 && levels.starts_with(parent);
        Ok(listed.into_iter().filter(is_child).collect())
    }

    async fn properties(
        &self,
        levels: &[String],
        contents: &mut Contents,
    ) -> Result<BTreeMap<String, String>, MigrateError> {
        match self.load_namespace(levels).await? {
            Response::Success(namespace) => Ok(namespace.into_properties()),
            Response::Rejected(rejection) => {
                let reason = rejection.error("its properties cannot be read");
                contents.failures.push(format!("namespace {}: {reason}", levels.join(".")));
                Ok(BTreeMap::new())
            }
        }
    }

    async fn tabulars(
        &self,
        kind: TabularKind,
        namespace: &[String],
        contents: &mut Contents,
    ) -> Result<(), MigrateError> {
        if kind == TabularKind::View && self.has_views == Some(false) {
            return Ok(());
        }
        let path = format!("{}/{}", self.in_namespace(namespace), plural(kind));
        let listed = match self.list_all::<TabularIdentifier>(&path, None).await? {
            Response::Success(listed) => listed,
            // A catalog whose configuration lists no endpoints may not support views.
            Response::Rejected(rejection)
                if kind == TabularKind::View
                    && self.has_views.is_none()
                    && rejection.is_missing() =>
            {
                return Ok(());
            }
            Response::Rejected(rejection) => {
                let what = format!("{} of {}", plural(kind), namespace.join("."));
                contents.failures.push(rejection.error(&what).to_string());
                return Ok(());
            }
        };
        contents.tabulars.extend(listed.into_iter().map(|identifier| SourceTabular {
            kind,
            namespace: namespace.to_vec(),
            name: identifier.name,
            metadata_location: None,
        }));
        Ok(())
    }
}
