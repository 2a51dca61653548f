//! The objects of a revision of a set, and which of them a cluster has.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;

use crate::template_name::{NamedTemplate, TemplateName};

/// The objects of a revision. Where it was rendered differently for some clusters, each of them has
/// those of its variant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetObjects {
    all: Arc<[NamedTemplate]>,
    /// `None`: all clusters have all objects.
    variants: Option<AssignedVariants>,
}

/// What clusters of one version of Kubernetes have of a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetVariant {
    /// The version of Kubernetes that it was rendered for.
    pub kubernetes_version: String,
    /// The positions of its objects among those of all variants, in ascending order.
    pub objects: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq)]
struct AssignedVariants {
    variants: Arc<[SetVariant]>,
    /// The positions of the variants of clusters; that of others is not known.
    assigned: Arc<BTreeMap<String, usize>>,
}

/// An object of a revision in each of its variants.
#[derive(Clone, Debug)]
pub struct ObjectVariants<'a> {
    /// Its name.
    pub name: &'a TemplateName,
    /// The object of the first variant that has it.
    pub base: &'a NamedTemplate,
    set: &'a SetObjects,
    /// By variant; a set without variants has one.
    objects: Vec<Option<&'a Arc<Value>>>,
}

/// What a cluster has of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ObjectInCluster<'a> {
    /// It has this one.
    Has(&'a Arc<Value>),
    /// It has none.
    Lacks,
    /// Its variant is not known, and variants differ.
    Unknown,
}

impl FromIterator<NamedTemplate> for SetObjects {
    fn from_iter<I: IntoIterator<Item = NamedTemplate>>(objects: I) -> Self {
        Self {
            all: objects.into_iter().collect(),
            variants: None,
        }
    }
}

impl From<Arc<[NamedTemplate]>> for SetObjects {
    fn from(all: Arc<[NamedTemplate]>) -> Self {
        Self {
            all,
            variants: None,
        }
    }
}

impl SetObjects {
    /// The objects of variants, of which the first one counts where an object is placed.
    /// `assigned`: the positions of the variants of clusters. Variants that are all the same are
    /// none.
    pub fn of_variants(
        all: Arc<[NamedTemplate]>,
        variants: &Arc<[SetVariant]>,
        assigned: &Arc<BTreeMap<String, usize>>,
    ) -> Self {
        let Some(first) = variants.first() else {
            return Self::default();
        };
        if variants.iter().all(|one| one.objects == first.objects) {
            if first.objects.len() == all.len() {
                return Self::from(all);
            }
            let positions = first.objects.iter();
            return positions
                .filter_map(|position| all.get(*position).cloned())
                .collect();
        }
        Self {
            all,
            variants: Some(AssignedVariants {
                variants: Arc::clone(variants),
                assigned: Arc::clone(assigned),
            }),
        }
    }

    /// The objects of all variants.
    pub fn all(&self) -> &[NamedTemplate] {
        &self.all
    }

    /// Whether clusters have different objects.
    pub fn has_variants(&self) -> bool {
        self.variants.is_some()
    }

    /// How many variants differ; one if all clusters have all objects.
    pub fn number_of_variants(&self) -> usize {
        let known = self.variants.as_ref();
        known.map_or(1, |known| known.variants.len())
    }

    /// The version of Kubernetes that a cluster's variant was rendered for, where variants differ.
    pub fn version_for(&self, cluster: &str) -> Option<&str> {
        let AssignedVariants { variants, assigned } = self.variants.as_ref()?;
        let variant = variants.get(*assigned.get(cluster)?)?;
        Some(&variant.kubernetes_version)
    }

    /// The objects that a cluster has; all of them if its variant is not known.
    pub fn in_cluster(&self, cluster: &str) -> Vec<&NamedTemplate> {
        let known = self.variants.as_ref().and_then(|known| {
            let variant = known.assigned.get(cluster)?;
            known.variants.get(*variant)
        });
        match known {
            Some(variant) => {
                let positions = variant.objects.iter();
                positions
                    .filter_map(|position| self.all.get(*position))
                    .collect()
            }
            None => self.all.iter().collect(),
        }
    }

    /// Each object once, by its name.
    pub fn by_name(&self) -> Vec<ObjectVariants<'_>> {
        let Some(AssignedVariants { variants, .. }) = &self.variants else {
            let all = self.all.iter();
            let alone = all.map(|one| ObjectVariants {
                name: &one.name,
                base: one,
                set: self,
                objects: vec![Some(&one.object)],
            });
            return alone.collect();
        };
        let mut found: Vec<ObjectVariants<'_>> = Vec::new();
        let mut known: BTreeMap<&TemplateName, usize> = BTreeMap::new();
        for (number, variant) in variants.iter().enumerate() {
            let positions = variant.objects.iter();
            for one in positions.filter_map(|position| self.all.get(*position)) {
                let at = *known.entry(&one.name).or_insert_with(|| {
                    found.push(ObjectVariants {
                        name: &one.name,
                        base: one,
                        set: self,
                        objects: vec![None; variants.len()],
                    });
                    found.len() - 1
                });
                if let Some(object) = found[at].objects.get_mut(number) {
                    object.get_or_insert(&one.object);
                }
            }
        }
        found
    }
}

impl<'a> ObjectVariants<'a> {
    /// An object that no variant of a set has.
    pub fn absent(base: &'a NamedTemplate, set: &'a SetObjects) -> Self {
        Self {
            name: &base.name,
            base,
            set,
            objects: vec![None; set.number_of_variants()],
        }
    }

    /// Whether no variant has it.
    pub fn is_absent(&self) -> bool {
        self.objects.iter().all(Option::is_none)
    }

    /// The object, if all variants have the same one.
    pub fn same(&self) -> Option<&'a Arc<Value>> {
        let first = (*self.objects.first()?)?;
        let mut others = self.objects.iter();
        others
            .all(|one| one.is_some_and(|one| Arc::ptr_eq(one, first) || one == first))
            .then_some(first)
    }

    /// The variants that have it.
    pub fn variants(&self) -> BTreeSet<usize> {
        let objects = self.objects.iter().enumerate();
        let present = objects.filter(|(_, one)| one.is_some());
        present.map(|(number, _)| number).collect()
    }

    /// The version of Kubernetes that a cluster's variant was rendered for, where variants differ.
    pub fn version_for(&self, cluster: &str) -> Option<&'a str> {
        self.set.version_for(cluster)
    }

    /// The position of a cluster's variant; `None`: it is not known.
    pub fn variant_of(&self, cluster: &str) -> Option<usize> {
        match &self.set.variants {
            Some(known) => known.assigned.get(cluster).copied(),
            None => Some(0),
        }
    }

    /// What a cluster has.
    pub fn in_cluster(&self, cluster: &str) -> ObjectInCluster<'a> {
        let variant = self.variant_of(cluster);
        let known = variant.and_then(|variant| self.objects.get(variant).copied());
        match (known, self.same()) {
            (Some(Some(object)), _) | (None, Some(object)) => ObjectInCluster::Has(object),
            (Some(None), _) => ObjectInCluster::Lacks,
            (None, None) if self.is_absent() => ObjectInCluster::Lacks,
            (None, None) => ObjectInCluster::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, value: u32) -> NamedTemplate {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name}, "data": {"value": value}});
        object.into()
    }

    /// `a` differs, `b` is the same, `c` and `d` are in one variant each.
    fn with_variants(positions: [&[usize]; 2]) -> SetObjects {
        let all = [
            object("a", 1),
            object("b", 1),
            object("c", 1),
            object("a", 2),
            object("d", 2),
        ];
        let variant = |version: &str, objects: &[usize]| SetVariant {
            kubernetes_version: version.to_owned(),
            objects: objects.to_vec(),
        };
        let [new, old] = positions;
        let variants = [variant("1.36.0", new), variant("1.35.0", old)];
        let assigned = [("new".to_owned(), 0), ("old".to_owned(), 1)];
        SetObjects::of_variants(
            all.into(),
            &Arc::from(variants),
            &Arc::new(BTreeMap::from(assigned)),
        )
    }

    fn value(found: ObjectInCluster<'_>) -> String {
        match found {
            ObjectInCluster::Has(object) => object["data"]["value"].to_string(),
            ObjectInCluster::Lacks => "-".to_owned(),
            ObjectInCluster::Unknown => "?".to_owned(),
        }
    }

    #[test]
    fn a_cluster_has_the_objects_of_its_variant() {
        let set = with_variants([&[0, 1, 2], &[1, 3, 4]]);
        assert!(set.has_variants());
        let shown = set.by_name().into_iter().map(|one| {
            let values = ["new", "old", "other"].map(|cluster| value(one.in_cluster(cluster)));
            format!("{}: {}", one.name.name, values.join(" "))
        });
        let shown: Vec<String> = shown.collect();
        assert_eq!(shown, ["a: 1 2 ?", "b: 1 1 1", "c: 1 - ?", "d: - 2 ?"]);
        let names = |cluster: &str| -> Vec<String> {
            let objects = set.in_cluster(cluster).into_iter();
            objects.map(|one| one.name.name.clone()).collect()
        };
        assert_eq!(names("new"), ["a", "b", "c"]);
        assert_eq!(names("old"), ["b", "a", "d"]);
        assert_eq!(set.version_for("old"), Some("1.35.0"));
        let absent = object("e", 1);
        let absent = ObjectVariants::absent(&absent, &set);
        assert_eq!(value(absent.in_cluster("other")), "-");
        assert!(absent.is_absent() && absent.same().is_none());
    }

    #[test]
    fn variants_that_are_the_same_are_none() {
        let set = with_variants([&[0, 1], &[0, 1]]);
        assert!(!set.has_variants());
        let a = &set.by_name()[0];
        assert_eq!(value(a.in_cluster("other")), "1");
        assert_eq!((a.variants(), set.version_for("new")), ([0].into(), None));
        assert_eq!(set.all().len(), 2, "what no variant has is none of the set");
    }
}
