//! The path and the query by which a question is asked: the inverse of [`parse`](super::parse).

use std::{fmt::Display, num::NonZeroUsize};

use fleetdex_core::{
    query::{Facet, GroupKey},
    selector::LabelSelector,
};
use jiff::Timestamp;

use super::{
    AggregateRequest, ChangesRequest, CompletionsRequest, GroupDiscovery, ListRequest,
    ObjectsRequest, OpenApi, Question, RelatedRequest, ResourcePath, SearchRequest, StoreKind,
    VerifyRequest, across_kinds::DEFAULT_DEPTH, counts::DEFAULT_TOP,
};
use crate::{
    group::{GROUPS, VERSION},
    parameter::{FIELD_SELECTOR, LABEL_SELECTOR},
    percent::encode,
    search_options::{OrderBy, SearchOptions, Seniority},
    search_version::SearchVersion,
    watch_options::{RequestedVersion, ResourceVersionMatch, WatchOptions},
};

/// A URI while it is written.
struct UriWriter {
    text: String,
    separator: char,
}

impl UriWriter {
    /// Begins with `/`, and these segments.
    fn of(segments: &[&str]) -> Self {
        let mut uri = Self {
            text: String::new(),
            separator: '?',
        };
        for segment in segments {
            uri.segment(segment);
        }
        uri
    }

    /// Begins below the group.
    fn below_group(segments: &[&str]) -> Self {
        let mut uri = Self::of(&["apis", GROUPS[0], VERSION]);
        for segment in segments {
            uri.segment(segment);
        }
        uri
    }

    fn segment(&mut self, segment: &str) {
        self.text.push('/');
        self.text.push_str(&encode(segment));
    }

    fn resource(&mut self, resource: &ResourcePath) {
        if resource.group.is_empty() {
            self.segment("api");
        } else {
            self.segment("apis");
            self.segment(&resource.group);
        }
        self.segment(&resource.version);
        if let Some(namespace) = &resource.namespace {
            self.segment("namespaces");
            self.segment(namespace.as_str());
        }
        self.segment(&resource.plural);
        if let Some(name) = &resource.name {
            self.segment(name);
        }
    }

    fn parameter(&mut self, key: &str, value: impl Display) {
        self.text.push(self.separator);
        self.separator = '&';
        self.text.push_str(&encode(key));
        self.text.push('=');
        self.text.push_str(&encode(&value.to_string()));
    }

    fn optional(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.parameter(key, value);
        }
    }

    fn flag(&mut self, key: &str, is_set: bool) {
        if is_set {
            self.parameter(key, true);
        }
    }

    /// A list separated by commas; an empty one is no parameter.
    fn words<T: Display>(&mut self, key: &str, words: impl IntoIterator<Item = T>) {
        let words: Vec<String> = words.into_iter().map(|word| word.to_string()).collect();
        if !words.is_empty() {
            self.parameter(key, words.join(","));
        }
    }

    /// What a list selects, and how.
    fn list(&mut self, list: &ListRequest) {
        if list.path_cluster.is_none() {
            self.words("clusters", &list.clusters);
        }
        if list.resource.namespace.is_none() {
            self.words("namespaces", &list.namespaces);
        }
        if list.resource.name.is_none() {
            self.words("names", &list.names);
        }
        self.labels(&list.labels);
        if !list.fields.is_empty() {
            self.parameter(FIELD_SELECTOR, &list.fields);
        }
        self.optional("limit", list.limit.map(NonZeroUsize::get));
        self.optional("continue", list.continue_token.as_ref());
        self.optional("store", list.store.as_ref());
        self.options(&list.options);
        self.watch_options(&list.watch_options);
        self.ignored(&list.ignored);
    }

    fn labels(&mut self, labels: &LabelSelector) {
        if !labels.is_empty() {
            self.parameter(LABEL_SELECTOR, labels);
        }
    }

    fn options(&mut self, options: &SearchOptions) {
        let SearchOptions {
            order_by,
            owner,
            since,
            before,
            only_metadata,
            without_remaining_count,
            explain,
        } = options;
        self.words("orderBy", order_by.iter().map(order));
        self.words("ownerUID", &owner.uids);
        self.words("ownerName", &owner.names);
        self.optional("ownerGR", owner.resource.as_ref());
        match owner.seniority {
            seniority if seniority == Seniority::default() => {}
            Seniority::Exactly(generations) => self.parameter("ownerSeniority", generations),
            Seniority::Any => self.parameter("ownerSeniority", "any"),
        }
        self.optional("since", since.and_then(time));
        self.optional("before", before.and_then(time));
        self.flag("onlyMetadata", *only_metadata);
        if *without_remaining_count {
            self.parameter("withRemainingCount", false);
        }
        self.flag("explain", *explain);
    }

    fn watch_options(&mut self, options: &WatchOptions) {
        let WatchOptions {
            watch,
            resource_version,
            version_match,
            initial_events,
            bookmarks,
            timeout_seconds,
        } = options;
        self.flag("watch", *watch);
        match resource_version {
            RequestedVersion::Unset => {}
            RequestedVersion::Any => self.parameter("resourceVersion", 0),
            RequestedVersion::Version(version) => self.parameter("resourceVersion", version),
        }
        let version_match = version_match.map(|version_match| match version_match {
            ResourceVersionMatch::Exact => "Exact",
            ResourceVersionMatch::NotOlderThan => "NotOlderThan",
        });
        self.optional("resourceVersionMatch", version_match);
        self.optional("sendInitialEvents", *initial_events);
        self.flag("allowWatchBookmarks", *bookmarks);
        self.optional("timeoutSeconds", *timeout_seconds);
    }

    /// Parameters that mean nothing.
    fn ignored(&mut self, names: &[String]) {
        for name in names {
            self.parameter(name, "");
        }
    }
}

impl Question {
    /// The path and the query by which it is asked, below our own group where there are two. Search
    /// labels of Clusterpedia become parameters, so a question of nearly as many parameters as a
    /// request may have may be written with more.
    pub fn to_uri(&self) -> String {
        let uri = match self {
            Self::Version => UriWriter::of(&["version"]),
            Self::Discovery(GroupDiscovery::Groups) => UriWriter::of(&["apis"]),
            Self::Discovery(GroupDiscovery::Group(group)) => UriWriter::of(&["apis", group]),
            Self::Discovery(GroupDiscovery::Resources(group)) => {
                UriWriter::of(&["apis", group, VERSION])
            }
            Self::OpenApi(OpenApi::V2) => UriWriter::of(&["openapi", "v2"]),
            Self::OpenApi(OpenApi::Index) => UriWriter::of(&["openapi", "v3"]),
            Self::OpenApi(OpenApi::V3(group)) => {
                UriWriter::of(&["openapi", "v3", "apis", group, VERSION])
            }
            Self::List(request) => list(request),
            Self::Aggregate(request) => aggregate(request),
            Self::Objects(request) => objects(request),
            Self::Search(request) => search(request),
            Self::Completions(request) => completions(request),
            Self::Related(request) => related(request),
            Self::Merged(request) => {
                let mut uri = UriWriter::below_group(&["merged"]);
                uri.resource(&request.list.resource);
                uri.list(&request.list);
                uri
            }
            Self::Images(request) => {
                let mut uri = UriWriter::below_group(&["images"]);
                uri.list(&request.list);
                uri
            }
            Self::Interpret => UriWriter::below_group(&["interpret"]),
            Self::Changes(request) => changes(request),
            Self::Clusters => UriWriter::below_group(&["clusters"]),
            Self::Verify(VerifyRequest {
                clusters,
                is_of_replica,
            }) => {
                let path: &[&str] = if *is_of_replica {
                    &["changes", "verify"]
                } else {
                    &["verify"]
                };
                let mut uri = UriWriter::below_group(path);
                uri.words("clusters", clusters);
                uri
            }
        };
        uri.text
    }
}

fn list(request: &ListRequest) -> UriWriter {
    let mut uri = match (&request.path_cluster, request.store_kind) {
        (Some(cluster), _) => UriWriter::below_group(&["clusters", cluster.as_str()]),
        (None, None) => UriWriter::below_group(&["search"]),
        (None, Some(StoreKind::Embedded)) => UriWriter::below_group(&["search", "cache"]),
        (None, Some(StoreKind::OpenSearch)) => UriWriter::below_group(&["search", "opensearch"]),
    };
    uri.resource(&request.resource);
    uri.list(request);
    uri
}

fn aggregate(request: &AggregateRequest) -> UriWriter {
    let AggregateRequest { list, by, top } = request;
    let mut uri = UriWriter::below_group(&["aggregate"]);
    uri.resource(&list.resource);
    uri.words("by", by.iter().map(group_key));
    if *top != DEFAULT_TOP {
        uri.parameter("top", top);
    }
    uri.list(list);
    uri
}

fn objects(request: &ObjectsRequest) -> UriWriter {
    let ObjectsRequest {
        list,
        kinds,
        limit: _,
    } = request;
    let mut uri = UriWriter::below_group(&["objects"]);
    uri.words("kinds", kinds);
    uri.list(list);
    uri
}

fn search(request: &SearchRequest) -> UriWriter {
    let SearchRequest {
        text,
        search: _,
        list,
        facets,
        limit: _,
        explain,
        not_older_than,
        watch,
    } = request;
    let mut uri = UriWriter::below_group(&["objects"]);
    uri.parameter("q", text);
    uri.words("facets", facets.iter().copied().map(Facet::name));
    uri.flag("explain", *explain);
    uri.flag("watch", watch.is_some());
    let after = watch.and_then(|watch| watch.after);
    // What was selected counts for a watch only.
    let version = after.or(not_older_than.map(|version| SearchVersion {
        version,
        selection: 0,
    }));
    uri.optional("resourceVersion", version);
    let timeout = watch.and_then(|watch| watch.timeout);
    uri.optional("timeoutSeconds", timeout.map(|timeout| timeout.as_secs()));
    uri.list(list);
    uri
}

fn completions(request: &CompletionsRequest) -> UriWriter {
    let CompletionsRequest {
        text,
        cursor,
        others: _,
        ignored,
    } = request;
    let mut uri = UriWriter::below_group(&["completions"]);
    if !text.is_empty() {
        uri.parameter("q", text);
    }
    if *cursor != text.len() {
        uri.parameter("cursor", cursor);
    }
    uri.ignored(ignored);
    uri
}

fn related(request: &RelatedRequest) -> UriWriter {
    let RelatedRequest {
        list,
        depth,
        limit: _,
    } = request;
    let mut uri = UriWriter::below_group(&["related"]);
    uri.resource(&list.resource);
    if *depth != DEFAULT_DEPTH {
        uri.parameter("depth", depth);
    }
    uri.list(list);
    uri
}

fn changes(request: &ChangesRequest) -> UriWriter {
    let ChangesRequest {
        resource,
        store,
        watch,
        since,
    } = request;
    let mut uri = UriWriter::below_group(&["changes"]);
    uri.resource(resource);
    uri.parameter("store", store);
    uri.flag("watch", *watch);
    uri.optional("resourceVersion", *since);
    uri
}

fn order(by: &OrderBy) -> String {
    let direction = if by.descending { " desc" } else { "" };
    format!("{}{direction}", by.field)
}

fn group_key(key: &GroupKey) -> String {
    match key {
        GroupKey::Cluster => "cluster".to_owned(),
        GroupKey::Namespace => "namespace".to_owned(),
        GroupKey::Label(label) => format!("label:{label}"),
        GroupKey::Field(path) => path.as_str().to_owned(),
    }
}

/// A time of milliseconds since 1970.
fn time(milliseconds: i64) -> Option<Timestamp> {
    Timestamp::from_millisecond(milliseconds).ok()
}
