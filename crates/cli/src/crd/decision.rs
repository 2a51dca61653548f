//! Which CRDs may be applied: none that another server hides, none of another program, none of a
//! newer Fleetdex.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use semver::Version;

/// The annotation with the version of the Fleetdex that applied a CRD.
pub(super) const VERSION_ANNOTATION: &str = "fleetdex.io/version";
/// The annotation of the generator of Karmada's CRDs, and of most others; that of Fleetdex sets
/// none.
const GENERATOR_ANNOTATION: &str = "controller-gen.kubebuilder.io/version";
/// Serves `Cluster` on a Karmada control plane.
const KARMADA: &str = "v1alpha1.cluster.karmada.io";
/// The CRDs that Karmada installs on its control planes.
const CRDS_OF_KARMADA: [&str; 9] = [
    "clusteroverridepolicies.policy.karmada.io",
    "clusterpropagationpolicies.policy.karmada.io",
    "clusterresourcebindings.work.karmada.io",
    "overridepolicies.policy.karmada.io",
    "propagationpolicies.policy.karmada.io",
    "resourcebindings.work.karmada.io",
    "resourceinterpretercustomizations.config.karmada.io",
    "resourceinterpreterwebhookconfigurations.config.karmada.io",
    "workloadrebalancers.apps.karmada.io",
];
/// The groups of distribution, of which Fleetdex never had a CRD without [`VERSION_ANNOTATION`].
const GROUPS_OF_DISTRIBUTION: [&str; 4] = [
    "apps.karmada.io",
    "distribute.fleetdex.io",
    "policy.karmada.io",
    "work.karmada.io",
];

/// `APIServices` that another server answers for: the Service by the name of the `APIService`.
pub(super) type AggregatedVersions = BTreeMap<String, String>;

/// What to do with a CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CrdDecision {
    /// Create or replace it.
    Apply,
    /// It belongs to another server or program.
    LeaveAlone(ForeignCrd),
    /// It is of a newer Fleetdex.
    Newer {
        /// The version of the CRD.
        installed: Version,
        /// The version of this program.
        ours: Version,
    },
}

/// To whom a CRD belongs that is left alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ForeignCrd {
    /// Another server answers for the group, and a CRD would never be served.
    #[error("APIService {api_service} belongs to Service {service}, which would hide the CRD")]
    Aggregated {
        /// The `APIService`.
        api_service: String,
        /// The Service behind it.
        service: String,
    },
    /// Karmada has not installed it yet.
    #[error("this is a Karmada control plane, and Karmada installs it")]
    ExpectedOfKarmada,
    /// Another program has installed it.
    #[error("it is not of Fleetdex, which uses its objects as they are")]
    InstalledByAnother,
}

/// Decides about a CRD that may be installed already.
pub(super) fn decide(
    wanted: &CustomResourceDefinition,
    installed: Option<&CustomResourceDefinition>,
    aggregated: &AggregatedVersions,
) -> CrdDecision {
    if let Some((api_service, service)) =
        api_services(wanted).find_map(|name| aggregated.get(&name).map(|service| (name, service)))
    {
        return CrdDecision::LeaveAlone(ForeignCrd::Aggregated {
            api_service,
            service: service.clone(),
        });
    }
    let Some(installed) = installed else {
        let name = wanted.metadata.name.as_deref().unwrap_or_default();
        let is_of_karmada = aggregated.contains_key(KARMADA) && CRDS_OF_KARMADA.contains(&name);
        return if is_of_karmada {
            CrdDecision::LeaveAlone(ForeignCrd::ExpectedOfKarmada)
        } else {
            CrdDecision::Apply
        };
    };
    if !is_of_fleetdex(installed) {
        return CrdDecision::LeaveAlone(ForeignCrd::InstalledByAnother);
    }
    match (version_of(installed), version_of(wanted)) {
        (Some(theirs), Some(ours)) if theirs > ours => CrdDecision::Newer {
            installed: theirs,
            ours,
        },
        _ => CrdDecision::Apply,
    }
}

/// The names of the `APIServices` of its versions.
pub(super) fn api_services(crd: &CustomResourceDefinition) -> impl Iterator<Item = String> + '_ {
    let versions = crd.spec.versions.iter();
    versions.map(|version| format!("{}.{}", version.name, crd.spec.group))
}

fn annotation<'c>(crd: &'c CustomResourceDefinition, key: &str) -> Option<&'c String> {
    crd.metadata.annotations.as_ref()?.get(key)
}

fn version_of(crd: &CustomResourceDefinition) -> Option<Version> {
    annotation(crd, VERSION_ANNOTATION)?.parse().ok()
}

/// Whether Fleetdex defined it. Before it had the annotation, its CRDs differed from Karmada's of
/// the same name in these: they have a status, and Karmada's the annotation of their generator.
pub fn is_of_fleetdex(crd: &CustomResourceDefinition) -> bool {
    if annotation(crd, VERSION_ANNOTATION).is_some() {
        return true;
    }
    if GROUPS_OF_DISTRIBUTION.contains(&crd.spec.group.as_str()) {
        return false;
    }
    let has_status = crd.spec.versions.iter().any(|version| {
        version
            .subresources
            .as_ref()
            .is_some_and(|subresources| subresources.status.is_some())
    });
    has_status && annotation(crd, GENERATOR_ANNOTATION).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(name: &str) -> CustomResourceDefinition {
        let all = crate::crd::all();
        let found = all
            .into_iter()
            .find(|file| file.crd.metadata.name.as_deref() == Some(name));
        found.unwrap().crd
    }

    fn with_version(name: &str, version: Option<&str>) -> CustomResourceDefinition {
        let mut crd = wanted(name);
        crd.metadata.annotations = version
            .map(|version| BTreeMap::from([(VERSION_ANNOTATION.to_owned(), version.to_owned())]));
        crd
    }

    fn karmada() -> AggregatedVersions {
        BTreeMap::from([(
            KARMADA.to_owned(),
            "karmada-system/karmada-aggregated-apiserver".to_owned(),
        )])
    }

    const REGISTRIES: &str = "resourceregistries.search.karmada.io";
    const CUSTOMIZATIONS: &str = "resourceinterpretercustomizations.config.karmada.io";

    #[test]
    fn ours_are_replaced_unless_they_are_newer() {
        let (none, crd) = (AggregatedVersions::new(), wanted(REGISTRIES));
        assert_eq!(decide(&crd, None, &none), CrdDecision::Apply);
        for older in [None, Some("0.0.9"), Some("0.1.0-rc.1"), Some("no version")] {
            let installed = with_version(REGISTRIES, older);
            assert_eq!(
                decide(&crd, Some(&installed), &none),
                CrdDecision::Apply,
                "{older:?}"
            );
        }
        // 10 is more than 9: these are numbers, not texts.
        let newer = with_version(REGISTRIES, Some("0.10.0"));
        let ours = with_version(REGISTRIES, Some("0.9.0"));
        assert!(matches!(
            decide(&ours, Some(&newer), &none),
            CrdDecision::Newer { .. }
        ));
        assert_eq!(decide(&newer, Some(&ours), &none), CrdDecision::Apply);
    }

    #[test]
    fn groups_that_another_server_answers_for_are_left_alone() {
        let clusters = wanted("clusters.cluster.karmada.io");
        let decision = decide(&clusters, None, &karmada());
        let CrdDecision::LeaveAlone(reason) = decision else {
            panic!("{decision:?}");
        };
        assert_eq!(
            reason.to_string(),
            "APIService v1alpha1.cluster.karmada.io belongs to Service karmada-system/karmada-aggregated-apiserver, which would hide the CRD"
        );
        assert_eq!(
            decide(&wanted(REGISTRIES), None, &karmada()),
            CrdDecision::Apply
        );
    }

    #[test]
    fn crds_of_karmada_are_left_alone_with_and_without_its_generators_annotation() {
        let crd = wanted(CUSTOMIZATIONS);
        assert_eq!(
            decide(&crd, None, &karmada()),
            CrdDecision::LeaveAlone(ForeignCrd::ExpectedOfKarmada)
        );
        let mut generated = with_version(CUSTOMIZATIONS, None);
        generated.metadata.annotations = Some(BTreeMap::from([(
            GENERATOR_ANNOTATION.to_owned(),
            "v0.18.0".to_owned(),
        )]));
        let mut without_status = with_version(CUSTOMIZATIONS, None);
        for version in &mut without_status.spec.versions {
            version.subresources = None;
        }
        for foreign in [generated, without_status] {
            assert_eq!(
                decide(&crd, Some(&foreign), &AggregatedVersions::new()),
                CrdDecision::LeaveAlone(ForeignCrd::InstalledByAnother)
            );
        }
        let of_distribution = crate::crd::of_distribution().into_iter();
        let names = of_distribution.map(|file| file.crd.metadata.name.unwrap());
        for name in names.filter(|name| name.ends_with(".karmada.io")) {
            assert_eq!(
                decide(&wanted(&name), None, &karmada()),
                CrdDecision::LeaveAlone(ForeignCrd::ExpectedOfKarmada)
            );
            // Without any annotation, as a program that copies it may leave it.
            let copied = with_version(&name, None);
            assert_eq!(
                decide(&wanted(&name), Some(&copied), &AggregatedVersions::new()),
                CrdDecision::LeaveAlone(ForeignCrd::InstalledByAnother)
            );
        }
        let exploring = wanted("resourceexploringwebhookconfigurations.config.karmada.io");
        assert_eq!(decide(&exploring, None, &karmada()), CrdDecision::Apply);
    }
}
