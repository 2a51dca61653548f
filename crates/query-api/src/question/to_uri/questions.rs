//! Writes each kind of question as a URI.

use std::num::NonZeroUsize;

use fleetdex_core::{
    query::{Facet, GroupKey},
    selector::LabelSelector,
};
use jiff::Timestamp;

use crate::{
    group::VERSION,
    parameter::{FIELD_SELECTOR, LABEL_SELECTOR},
    question::{
        AggregateRequest, CompletionsRequest, GroupDiscovery, ListRequest, ObjectsRequest, OpenApi,
        Question, RelatedRequest, SearchRequest, StoreKind, across_kinds::DEFAULT_DEPTH,
        counts::DEFAULT_TOP, to_uri::UriWriter,
    },
    search_options::{OrderBy, SearchOptions, Seniority},
    search_version::SearchVersion,
    watch_options::{RequestedVersion, ResourceVersionMatch, WatchOptions},
};

impl UriWriter {
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
            Question::Version => UriWriter::of(&["version"]),
            Question::Discovery(GroupDiscovery::Groups) => UriWriter::of(&["apis"]),
            Question::Discovery(GroupDiscovery::Group(group)) => UriWriter::of(&["apis", group]),
            Question::Discovery(GroupDiscovery::Resources(group)) => {
                UriWriter::of(&["apis", group, VERSION])
            }
            Question::OpenApi(OpenApi::V2) => UriWriter::of(&["openapi", "v2"]),
            Question::OpenApi(OpenApi::Index) => UriWriter::of(&["openapi", "v3"]),
            Question::OpenApi(OpenApi::V3(group)) => {
                UriWriter::of(&["openapi", "v3", "apis", group, VERSION])
            }
            Question::List(request) => list(request),
            Question::Aggregate(request) => aggregate(request),
            Question::Objects(request) => objects(request),
            Question::Search(request) => search(request),
            Question::Completions(request) => completions(request),
            Question::Related(request) => related(request),
            Question::Merged(request) => {
                let mut uri = UriWriter::below_group(&["merged"]);
                uri.resource(&request.list.resource);
                uri.list(&request.list);
                uri
            }
            Question::Images(request) => {
                let mut uri = UriWriter::below_group(&["images"]);
                uri.list(&request.list);
                uri
            }
            Question::Interpret => UriWriter::below_group(&["interpret"]),
            Question::Changes(request) => return request.to_uri(),
            Question::Clusters => UriWriter::below_group(&["clusters"]),
            Question::Verify(request) => return request.to_uri(),
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
