use fleetdex_store::StoreError;

use super::*;

#[test]
fn a_status_names_code_reason_message_and_what_it_is_about() {
    let missing = ApiError::NotRegistered {
        group: "apps".to_owned(),
        plural: "deployments".to_owned(),
        message: "no ResourceRegistry selects deployments.apps".to_owned(),
    };
    insta::assert_json_snapshot!(missing.status(), @r#"
    {
      "apiVersion": "v1",
      "kind": "Status",
      "code": 404,
      "details": {
        "group": "apps",
        "kind": "deployments"
      },
      "message": "no ResourceRegistry selects deployments.apps",
      "metadata": {},
      "reason": "NotFound",
      "status": "Failure"
    }
    "#);
}

#[test]
fn a_client_that_meets_an_overload_is_told_when_to_come_back() {
    let overload = StoreError::Busy {
        status: 429,
        reason: "search queue is full".to_owned(),
    };
    insta::assert_json_snapshot!(ApiError::from(overload).status(), @r#"
    {
      "apiVersion": "v1",
      "kind": "Status",
      "code": 429,
      "details": {
        "retryAfterSeconds": 1
      },
      "message": "the store is overloaded or blocked (HTTP 429); try again",
      "metadata": {},
      "reason": "TooManyRequests",
      "status": "Failure"
    }
    "#);
}

#[test]
fn store_errors_keep_their_meaning() {
    let unreachable = StoreError::Unreachable {
        address: "https://os:9200".to_owned(),
        reason: "refused".to_owned(),
    };
    let password = StoreError::Unauthorized {
        address: "https://os".to_owned(),
        status: 401,
        reason: "no".to_owned(),
    };
    let garbled = StoreError::Garbled {
        operation: "search".to_owned(),
        reason: "no JSON".to_owned(),
    };
    let codes = [unreachable, password, garbled, StoreError::Expired]
        .map(|error| ApiError::from(error).code());
    assert_eq!(codes, [503, 503, 500, 410]);
}

#[test]
fn users_are_not_told_addresses_nor_names_of_indices() {
    let address = || "https://os.internal:9200".to_owned();
    let reason =
        || "index_not_found_exception: no such index [fleetdex-hidden] at os.internal".to_owned();
    for error in [
        StoreError::Unreachable {
            address: address(),
            reason: reason(),
        },
        StoreError::Unauthorized {
            address: address(),
            status: 403,
            reason: reason(),
        },
        StoreError::Busy {
            status: 503,
            reason: reason(),
        },
        StoreError::Refused {
            operation: reason(),
            status: 404,
            reason: reason(),
        },
        StoreError::Garbled {
            operation: reason(),
            reason: reason(),
        },
        StoreError::Foreign {
            index: "fleetdex-hidden".to_owned(),
            owner: "hidden".to_owned(),
        },
        StoreError::Embedded(reason()),
        StoreError::Closed {
            reason: "HostNotAllowed",
            message: reason(),
        },
    ] {
        let message = ApiError::from(error).to_string();
        assert!(
            !message.contains("hidden") && !message.contains("os.internal"),
            "{message}"
        );
    }
    let refused = StoreError::Refused {
        operation: String::new(),
        status: 400,
        reason: "too_many_nested_clauses: 1024".to_owned(),
    };
    assert_eq!(
        ApiError::from(refused).to_string(),
        "the store refused the request (HTTP 400, too_many_nested_clauses)"
    );
}

#[test]
fn a_request_that_is_no_question_keeps_its_code_and_its_message() {
    let errors = [
        QuestionError::invalid("parameter limit: no"),
        QuestionError::NoSuchPath {
            path: "/a".to_owned(),
        },
        QuestionError::NotFound("no resource".to_owned()),
        QuestionError::MethodNotAllowed {
            method: "PUT".to_owned(),
            allowed: "GET",
        },
    ];
    for error in errors {
        let (code, message) = (error.code(), error.to_string());
        let refusal = ApiError::from(error);
        assert_eq!((refusal.code(), refusal.to_string()), (code, message));
    }
}
