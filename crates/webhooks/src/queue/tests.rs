use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::sleep;

use super::*;
use crate::client::CallFailure;

/// A document whose webhooks take a time to answer, by their name, and then succeed or fail.
#[derive(Debug, Default)]
struct Document {
    name: String,
    asked: AtomicUsize,
    /// How often it fails before it is answered.
    failures: usize,
    again: bool,
    /// Until when the webhook is away.
    away_until: Option<Instant>,
    deliveries: Mutex<Vec<(String, Delivery<String>, Instant)>>,
}

impl Enrich for Document {
    type Answer = String;

    async fn ask(&self, webhook: &str) -> Result<String, Unanswered> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        match webhook {
            "hanging" => std::future::pending().await,
            "defective" => panic!("a defect"),
            "slow" => sleep(Duration::from_secs(1)).await,
            _ => sleep(Duration::from_millis(10)).await,
        }
        let away = self.away_until.is_some_and(|until| Instant::now() < until);
        if asked < self.failures || away {
            let contact = if away {
                Contact::Unreachable { retry_after: None }
            } else {
                Contact::Reached
            };
            return Err(Unanswered {
                text: format!("failure {asked}").into(),
                contact,
                again: self.again,
            });
        }
        Ok(format!("{} of {webhook}", self.name))
    }

    async fn deliver(&self, webhook: &str, delivery: Delivery<String>) {
        let delivery = (webhook.to_owned(), delivery, Instant::now());
        self.deliveries.lock().push(delivery);
    }
}

impl Document {
    fn delivered(&self) -> Vec<Delivery<String>> {
        let deliveries = self.deliveries.lock();
        deliveries
            .iter()
            .map(|(_, delivery, _)| delivery.clone())
            .collect()
    }
}

struct Running {
    queue: EnrichmentQueue<Document>,
    metrics: WebhookMetrics,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(limits: QueueLimits) -> Self {
        let metrics = WebhookMetrics::default();
        let queue = EnrichmentQueue::new(limits, metrics.clone());
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (queue, stop) = (queue.clone(), stop.clone());
            async move { queue.run(stop).await }
        });
        Self {
            queue,
            metrics,
            stop,
            task,
        }
    }

    fn submit(
        &self,
        number: u64,
        webhooks: &[&str],
        document: Document,
    ) -> Result<Arc<Document>, Overflow> {
        let payload = Arc::new(document);
        let job = EnrichmentJob {
            key: payload.name.as_str().into(),
            version: number.to_string().parse().unwrap(),
            webhooks: webhooks.iter().map(|webhook| (*webhook).into()).collect(),
            bytes: 1000,
            payload: Arc::clone(&payload),
        };
        self.queue.submit(&job).map(|()| payload)
    }

    async fn stop(self) -> WebhookMetrics {
        self.stop.cancel();
        self.task.await.unwrap();
        assert_eq!(self.queue.held(), Held::default());
        self.metrics
    }
}

fn document(name: &str) -> Document {
    Document {
        name: name.to_owned(),
        ..Document::default()
    }
}

fn answered(text: &str) -> Delivery<String> {
    Delivery::Answered(text.to_owned())
}

#[tokio::test(start_paused = true)]
async fn each_webhook_of_a_document_delivers_its_own_answer() {
    let running = Running::start(QueueLimits::default());
    let document = running
        .submit(1, &["slow", "quick"], document("x"))
        .unwrap();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(
        document.delivered(),
        [answered("x of quick"), answered("x of slow")]
    );
    assert_eq!(running.stop().await.ends(JobEnd::Answered), 2);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_hangs_does_not_delay_another_one() {
    let running = Running::start(QueueLimits::default());
    for number in 0..1000 {
        let name = format!("hanging{number}");
        running.submit(1, &["hanging"], document(&name)).unwrap();
    }
    sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    let documents: Vec<_> = (0..1000)
        .map(|number| {
            let name = format!("quick{number}");
            running.submit(1, &["quick"], document(&name)).unwrap()
        })
        .collect();
    sleep(Duration::from_secs(5)).await;
    let last = documents
        .iter()
        .map(|document| document.deliveries.lock()[0].2)
        .max();
    // 1,000 calls of 10 ms, 16 at a time, are 63 rounds.
    assert!(last.unwrap() - begun < Duration::from_secs(1));
    // The ones of the webhook that hangs end at last, and none is lost.
    sleep(Duration::from_mins(10)).await;
    let metrics = running.stop().await;
    assert_eq!(metrics.ends(JobEnd::Answered), 1000);
    assert_eq!(
        metrics.ends(JobEnd::Cancelled) + metrics.ends(JobEnd::Failed),
        1000
    );
}

#[tokio::test(start_paused = true)]
async fn a_newer_version_is_answered_and_the_older_one_is_not_delivered() {
    let running = Running::start(QueueLimits::default());
    let old = running.submit(1, &["slow"], document("x")).unwrap();
    sleep(Duration::from_millis(500)).await;
    let new = running.submit(2, &["slow"], document("x")).unwrap();
    let stale = running.submit(1, &["slow"], document("x")).unwrap();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(old.delivered(), []);
    assert_eq!(stale.delivered(), []);
    assert_eq!(new.delivered(), [answered("x of slow")]);
    assert_eq!(running.stop().await.ends(JobEnd::Superseded), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_delivered_once_and_the_answer_follows() {
    let running = Running::start(QueueLimits::default());
    let failing = Document {
        failures: 4,
        again: true,
        ..document("x")
    };
    let ignored = Document {
        failures: 1,
        ..document("y")
    };
    let failing = running.submit(1, &["quick"], failing).unwrap();
    let ignored = running.submit(1, &["quick"], ignored).unwrap();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(
        failing.delivered(),
        [
            Delivery::Postponed("failure 0".into()),
            answered("x of quick")
        ]
    );
    let failure = Unanswered {
        text: "failure 0".into(),
        contact: Contact::Reached,
        again: false,
    };
    assert_eq!(ignored.delivered(), [Delivery::Failed(failure)]);
    assert_eq!(ignored.asked.load(Ordering::Relaxed), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_everything_is_answered_within_the_longest_pause() {
    let running = Running::start(QueueLimits::default());
    let back = Instant::now() + Duration::from_mins(20);
    let documents: Vec<_> = (0..100)
        .map(|number| {
            let lost = Document {
                again: true,
                away_until: Some(back),
                ..document(&number.to_string())
            };
            running.submit(1, &["quick"], lost).unwrap()
        })
        .collect();
    sleep(Duration::from_millis(100)).await;
    assert!(!running.queue.permits("quick"));
    let asked = |documents: &[Arc<Document>]| -> usize {
        let asked = documents
            .iter()
            .map(|one| one.asked.load(Ordering::Relaxed));
        asked.sum()
    };
    tokio::time::sleep_until(back).await;
    assert!(asked(&documents) < 60, "the breaker did not open");
    sleep(Duration::from_secs(62)).await;
    assert!(running.queue.permits("quick"));
    for document in &documents {
        assert_eq!(
            document.delivered().last(),
            Some(&answered(&format!("{} of quick", document.name)))
        );
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_at_once_and_room_comes_with_the_answers() {
    let running = Running::start(QueueLimits::of_bytes(64_000));
    let mut refused = 0;
    for number in 0..100 {
        let submitted = running.submit(1, &["slow"], document(&number.to_string()));
        refused += u64::from(submitted.is_err());
    }
    assert!(refused > 80, "{refused}");
    let webhooks = [Arc::from("slow")];
    assert!(
        timeout(Duration::from_millis(500), running.queue.room(&webhooks))
            .await
            .is_err()
    );
    timeout(Duration::from_secs(3), running.queue.room(&webhooks))
        .await
        .unwrap();
    running.submit(1, &["slow"], document("again")).unwrap();
    assert_eq!(running.metrics.ends(JobEnd::Refused), refused);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_document_gets_nothing() {
    let running = Running::start(QueueLimits::default());
    let asked = running.submit(1, &["slow"], document("x")).unwrap();
    let waiting: Vec<_> = (0..40)
        .map(|number| {
            running
                .submit(1, &["slow"], document(&format!("y{number}")))
                .unwrap()
        })
        .collect();
    sleep(Duration::from_millis(500)).await;
    running.queue.cancel("x");
    running.queue.cancel_matching(|key| key.starts_with('y'));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(asked.delivered(), []);
    assert!(waiting.iter().all(|one| one.delivered().is_empty()));
    assert_eq!(running.stop().await.ends(JobEnd::Cancelled), 41);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_with_another_configuration_is_asked_at_once() {
    let running = Running::start(QueueLimits::default());
    let back = Instant::now() + Duration::from_mins(20);
    let away = Document {
        again: true,
        away_until: Some(back),
        ..document("x")
    };
    let document = running.submit(1, &["quick"], away).unwrap();
    tokio::time::sleep_until(back).await;
    running.queue.reset_webhook("quick");
    sleep(Duration::from_millis(20)).await;
    assert_eq!(document.delivered().last(), Some(&answered("x of quick")));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_defect_in_a_call_ends_the_queue_s_task() {
    let running = Running::start(QueueLimits::default());
    running.submit(1, &["defective"], document("x")).unwrap();
    assert!(running.task.await.unwrap_err().is_panic());
}

#[tokio::test(start_paused = true)]
async fn submitting_costs_little_however_much_is_queued() {
    let running = Running::start(QueueLimits::default());
    let begun = std::time::Instant::now();
    let mut taken = 0_u32;
    for number in 0..100_000 {
        let name = number.to_string();
        taken += u32::from(running.submit(1, &["hanging"], document(&name)).is_ok());
    }
    let each = begun.elapsed() / 100_000;
    println!("{each:?} for each submission, {taken} taken");
    assert!(taken < 20_000, "{taken}");
    assert!(each < Duration::from_micros(200), "{each:?}");
    running.stop().await;
}

#[test]
fn the_failure_policy_says_whether_to_ask_again() {
    let error = CallError {
        webhook: "a/b".to_owned(),
        failure: CallFailure::Timeout(Duration::from_secs(3)),
    };
    for (policy, again) in [(FailurePolicy::Fail, true), (FailurePolicy::Ignore, false)] {
        let unanswered = Unanswered {
            text: "no whole answer within 3 s".into(),
            contact: Contact::Unreachable { retry_after: None },
            again,
        };
        assert_eq!(Unanswered::of(&error, policy), unanswered);
    }
}
