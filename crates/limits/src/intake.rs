//! How much may be read at once of what others send: a limit for each body, and one budget for all of them.
//!
//! Every byte counts after decompression. A body takes its bytes from the [`Budget`] step by step while it comes, and gives them back when the last
//! one who holds them has dropped them. Who wants more than is left waits in turn. Readers that each hold a part and wait for more cannot
//! block each other for ever: one of them at a time gets the reserve, which is as large as the largest body, and finishes. A body that trickles is
//! not read on while others wait.
//! A member has a share of the budget; beyond that its bodies are refused, and other members are read as before.
//!
//! An [`Intake`] travels with each response of a member's client, as an extension ([`IntakeLayer`]).

use std::{
    collections::BTreeMap,
    error::Error,
    fmt,
    sync::{
        Arc, LazyLock, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use fleetdex_core::planted::{Bug, planted};
use futures::{StreamExt as _, future::BoxFuture};
use http::{Request, Response};
use http_body_util::{BodyExt as _, BodyStream, StreamBody, combinators::UnsyncBoxBody};
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};
use tower::{Layer, Service};

type BoxError = Box<dyn Error + Send + Sync>;

/// How many bytes a body may have, and all of them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A page of a list. 500 objects of 64 KiB; a longer one is asked for again with fewer objects.
    pub page: usize,
    /// A line of a watch: a change of one object. etcd takes no request over 1.5 MiB unless it is told to, and JSON is longer than what it
    /// stores by a factor of at most a few.
    pub line: usize,
    /// Any other answer. The aggregated discovery of a cluster with 2,000 kinds has about 2 MiB.
    pub answer: usize,
    /// What is read of an answer that says no; the rest is not looked at.
    pub refusal: usize,
    /// What one member may hold: two lists, each with a page that is written and one that is read, of half of the largest size.
    pub share: usize,
    /// What all may hold together, the reserve aside.
    pub shared: usize,
}

impl Limits {
    /// The largest body there is, and so what one reader may hold beside the shared part.
    fn reserve(&self) -> usize {
        self.page.max(self.line).max(self.answer)
    }

    /// What all may hold together.
    pub fn bound(&self) -> usize {
        (self.shared / STEP).max(1) * STEP + self.reserve().next_multiple_of(STEP)
    }
}

impl Default for Limits {
    /// 224 MiB for everything that is read of members.
    fn default() -> Self {
        Self {
            page: 32 << 20,
            line: 16 << 20,
            answer: 32 << 20,
            refusal: 64 << 10,
            share: 64 << 20,
            shared: 192 << 20,
        }
    }
}

/// What is taken from the budget at once: few enough times for a large page, little enough for a small answer.
const STEP: usize = 64 << 10;
/// So much of a body is not counted, so that probes and most lines of watches do not wait for the pages of others. There is one such body at a time
/// for each stream and request.
const FREE: usize = 16 << 10;
/// So much of the length that a body announces is made room for at once. What is announced costs a sender nothing, so it is little.
const PREPARED: usize = 1 << 20;
/// A body that holds memory others wait for has to bring [`PACE`] bytes in so long.
const LAP: Duration = Duration::from_secs(5);
/// 256 KiB a second: the largest body takes two minutes.
const PACE: usize = 1280 << 10;

/// The memory of this process for what others send. A clone is the same one.
#[derive(Clone)]
pub struct Budget(Arc<Pool>);

struct Pool {
    limits: Limits,
    steps: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    shares: Mutex<BTreeMap<String, Weak<Share>>>,
    waiting: AtomicUsize,
    held: AtomicUsize,
    peak: AtomicUsize,
}

#[derive(Default)]
struct Share {
    held: AtomicUsize,
}

impl Budget {
    /// A budget of its own.
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Pool {
            limits,
            steps: Arc::new(Semaphore::new((limits.shared / STEP).max(1))),
            reserve: Arc::new(Semaphore::new(1)),
            shares: Mutex::default(),
            waiting: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }))
    }

    /// The share of a member. While anything holds it, the same name has the same one.
    pub fn share(&self, member: &str) -> Intake {
        let mut shares = self.0.shares.lock();
        shares.retain(|_, share| share.strong_count() > 0);
        let known = shares.get(member).and_then(Weak::upgrade);
        let share = known.unwrap_or_else(|| {
            let share = Arc::new(Share::default());
            shares.insert(member.to_owned(), Arc::downgrade(&share));
            share
        });
        Intake {
            pool: Arc::clone(&self.0),
            share,
        }
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Bytes that are held now.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// The most bytes that were held at any time.
    pub fn peak(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }
}

impl Default for Budget {
    /// The one of this process for members.
    fn default() -> Self {
        static OF_THIS_PROCESS: LazyLock<Budget> = LazyLock::new(|| Budget::new(Limits::default()));
        OF_THIS_PROCESS.clone()
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Budget({} of {} bytes)",
            self.held(),
            self.0.limits.bound()
        )
    }
}

/// Why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is longer than it may be.
    #[error("it is longer than {0} bytes")]
    TooLarge(usize),
    /// The member's share of the budget is used up.
    #[error("this member has {0} bytes of answers in memory already")]
    Crowded(usize),
    /// It came so slowly that it would have kept others from being read.
    #[error("it came with less than {} KiB in {} s while other answers waited for memory", PACE >> 10, LAP.as_secs())]
    Slow,
    /// The connection broke.
    #[error(transparent)]
    Broken(BoxError),
}

/// A member's part in the budget. A clone is the same one.
#[derive(Clone)]
pub struct Intake {
    pool: Arc<Pool>,
    share: Arc<Share>,
}

impl fmt::Debug for Intake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Intake({} bytes)",
            self.share.held.load(Ordering::Relaxed)
        )
    }
}

impl Intake {
    /// The one that came with a response; that of nobody in particular if none did.
    pub fn of<B>(response: &Response<B>) -> Self {
        response
            .extensions()
            .get()
            .cloned()
            .unwrap_or_else(|| Budget::default().share(""))
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.pool.limits
    }

    /// Reads a body of at most `limit` bytes. Dropping the last clone of the bytes gives them back. One that announces to be longer is not read at all.
    pub async fn read<B>(&self, body: B, limit: usize) -> Result<Bytes, ReadError>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let is_bounded = !planted(Bug::LimitBeforeDecompression);
        if announced > limit && is_bounded {
            return Err(ReadError::TooLarge(limit));
        }
        let mut body = std::pin::pin!(body);
        let mut buffer = Buffer::new(self, limit, announced);
        while let Some(data) = buffer.hold.next(&mut body).await? {
            if buffer.bytes.len() + data.len() > limit && is_bounded {
                return Err(ReadError::TooLarge(limit));
            }
            buffer.push(&data).await?;
        }
        Ok(buffer.finish())
    }

    /// Reads the first `limit` bytes of a body; the rest is left unread. Dropping the last clone of the bytes gives them back.
    pub async fn read_beginning<B>(&self, body: B, limit: usize) -> Result<Bytes, ReadError>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let mut body = std::pin::pin!(body);
        let mut buffer = Buffer::new(self, limit, announced);
        while buffer.bytes.len() < limit
            && let Some(data) = buffer.hold.next(&mut body).await?
        {
            let room = limit - buffer.bytes.len();
            buffer.push(&data[..data.len().min(room)]).await?;
        }
        Ok(buffer.finish())
    }

    /// The beginning of a body that says no: what is over the limit is left unread, and does not matter.
    pub async fn read_refusal<B>(&self, body: B) -> Result<Bytes, ReadError>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let limit = self.pool.limits.refusal;
        let mut body = std::pin::pin!(body);
        let (mut bytes, mut hold) = (Vec::new(), self.hold());
        while bytes.len() < limit
            && let Some(data) = hold.next(&mut body).await?
        {
            bytes.extend_from_slice(&data[..data.len().min(limit - bytes.len())]);
        }
        Ok(bytes.into())
    }

    /// Bytes that are held of the whole budget now.
    pub fn held(&self) -> usize {
        self.pool.held.load(Ordering::Relaxed)
    }

    /// The most bytes of the whole budget that were held at any time.
    pub fn peak(&self) -> usize {
        self.pool.peak.load(Ordering::Relaxed)
    }

    /// Holds nothing yet.
    pub fn hold(&self) -> Hold {
        Hold {
            intake: self.clone(),
            counted: 0,
            permits: None,
            reserve: None,
            lap: None,
        }
    }
}

/// A part of the budget, given back when it is dropped.
pub struct Hold {
    intake: Intake,
    counted: usize,
    permits: Option<OwnedSemaphorePermit>,
    reserve: Option<OwnedSemaphorePermit>,
    /// While it holds anything.
    lap: Option<Lap>,
}

/// What has come of a body lately.
struct Lap {
    end: Instant,
    bytes: usize,
}

impl Lap {
    fn begin() -> Self {
        Self {
            end: Instant::now() + LAP,
            bytes: 0,
        }
    }
}

impl Hold {
    /// The next bytes of the body that it is for; nothing at its end. Cancel-safe.
    pub async fn next<B>(&mut self, body: &mut B) -> Result<Option<Bytes>, ReadError>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        loop {
            let frame = match &self.lap {
                None => body.frame().await,
                Some(lap) => match timeout_at(lap.end, body.frame()).await {
                    Ok(frame) => frame,
                    Err(_) => {
                        self.keep_pace(0)?;
                        continue;
                    }
                },
            };
            let Some(frame) = frame else { return Ok(None) };
            let Ok(data) = frame
                .map_err(|error| ReadError::Broken(error.into()))?
                .into_data()
            else {
                continue;
            };
            self.keep_pace(data.len())?;
            return Ok(Some(data));
        }
    }

    /// So many bytes have come, or gone to where they are sent. At the end of a lap with too few of them, those who wait go first.
    pub fn keep_pace(&mut self, bytes: usize) -> Result<(), ReadError> {
        let Some(lap) = &mut self.lap else {
            return Ok(());
        };
        lap.bytes += bytes;
        if Instant::now() < lap.end {
            return Ok(());
        }
        if lap.bytes < PACE && self.intake.pool.waiting.load(Ordering::Relaxed) > 0 {
            return Err(ReadError::Slow);
        }
        self.lap = Some(Lap::begin());
        Ok(())
    }

    /// Holds at least so many bytes, as soon as they are there. At most the largest body is waited for.
    pub async fn grow(&mut self, bytes: usize) -> Result<(), ReadError> {
        if self.has(bytes) {
            return Ok(());
        }
        let pool = Arc::clone(&self.intake.pool);
        let wanted = bytes
            .next_multiple_of(STEP)
            .min(pool.limits.reserve().next_multiple_of(STEP));
        let more = wanted.saturating_sub(self.counted);
        if more == 0 {
            return Ok(());
        }
        let before = self.intake.share.held.fetch_add(more, Ordering::Relaxed);
        // From here on it is given back, even if waiting is given up.
        let mut claim = Claim {
            share: Arc::clone(&self.intake.share),
            bytes: more,
        };
        if before + more > pool.limits.share {
            return Err(ReadError::Crowded(before));
        }
        if self.reserve.is_none() {
            let steps = u32::try_from(more / STEP).unwrap_or(u32::MAX);
            let _waiting = Waiting::new(&pool.waiting);
            tokio::select! {
                biased;
                Ok(permits) = Arc::clone(&pool.steps).acquire_many_owned(steps) => match &mut self.permits {
                    Some(held) => held.merge(permits),
                    None => self.permits = Some(permits),
                },
                Ok(reserve) = Arc::clone(&pool.reserve).acquire_owned() => self.reserve = Some(reserve),
            }
        }
        claim.bytes = 0;
        self.counted = wanted;
        self.lap = Some(Lap::begin());
        let held = pool.held.fetch_add(more, Ordering::Relaxed) + more;
        pool.peak.fetch_max(held, Ordering::Relaxed);
        Ok(())
    }

    /// Whether so many bytes need no more than it holds.
    pub fn has(&self, bytes: usize) -> bool {
        bytes <= FREE || bytes <= self.counted
    }

    /// Whether it holds anything of the budget.
    pub fn holds_any(&self) -> bool {
        self.counted > 0
    }

    /// Gives everything back, to begin anew.
    pub fn release(&mut self) {
        if self.counted > 0 {
            *self = self.intake.hold();
        }
    }

    /// Bytes that keep what they hold until they are dropped.
    fn keep(self, bytes: Vec<u8>) -> Bytes {
        if self.counted == 0 || bytes.is_empty() {
            return bytes.into();
        }
        Bytes::from_owner(Kept { bytes, _hold: self })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if planted(Bug::BudgetNotGivenBack) {
            self.permits
                .take()
                .into_iter()
                .for_each(OwnedSemaphorePermit::forget);
            return;
        }
        self.intake
            .share
            .held
            .fetch_sub(self.counted, Ordering::Relaxed);
        self.intake
            .pool
            .held
            .fetch_sub(self.counted, Ordering::Relaxed);
    }
}

/// One who waits for memory.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A body, as far as it has been read.
struct Buffer {
    hold: Hold,
    bytes: Vec<u8>,
    limit: usize,
    announced: usize,
}

impl Buffer {
    fn new(intake: &Intake, limit: usize, announced: usize) -> Self {
        Self {
            hold: intake.hold(),
            bytes: Vec::new(),
            limit,
            announced,
        }
    }

    async fn push(&mut self, data: &[u8]) -> Result<(), ReadError> {
        let length = self.bytes.len() + data.len();
        if length > self.bytes.capacity() {
            let doubled = (2 * self.bytes.capacity())
                .max(FREE)
                .max(self.announced.min(PREPARED));
            let expected = if self.announced < length {
                self.limit
            } else {
                self.announced.min(self.limit)
            };
            let capacity = doubled.min(expected.max(FREE)).max(length);
            self.hold.grow(capacity).await?;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn finish(self) -> Bytes {
        self.hold.keep(self.bytes)
    }
}

/// Part of a share, given back unless it becomes part of a hold.
struct Claim {
    share: Arc<Share>,
    bytes: usize,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.share.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

struct Kept {
    bytes: Vec<u8>,
    _hold: Hold,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Gives each response the intake of the member that it comes from.
#[derive(Clone, Debug)]
pub struct IntakeLayer(pub Intake);

impl<S> Layer<S> for IntakeLayer {
    type Service = WithIntake<S>;

    fn layer(&self, inner: S) -> Self::Service {
        WithIntake {
            inner,
            intake: self.0.clone(),
        }
    }
}

/// What [`IntakeLayer`] makes.
#[derive(Clone, Debug)]
pub struct WithIntake<S> {
    inner: S,
    intake: Intake,
}

impl<S, I, O> Service<Request<I>> for WithIntake<S>
where
    S: Service<Request<I>, Response = Response<O>>,
    S::Future: Send + 'static,
{
    type Response = Response<O>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<O>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<I>) -> Self::Future {
        let intake = self.intake.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            response.extensions_mut().insert(intake);
            Ok(response)
        })
    }
}

/// Bounds the answers of the control plane, which people who run Fleetdex trust: what kube's own client reads has no limit at all.
#[derive(Clone, Copy, Debug)]
pub struct BoundLayer {
    /// The longest stretch without a line break: an answer that is no watch has none.
    pub longest: usize,
}

impl Default for BoundLayer {
    /// Pages of Secrets have 500 of up to 1 MiB, and mostly of some kilobytes.
    fn default() -> Self {
        Self { longest: 256 << 20 }
    }
}

impl<S> Layer<S> for BoundLayer {
    type Service = Bounded<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Bounded {
            inner,
            longest: self.longest,
        }
    }
}

/// What [`BoundLayer`] makes.
#[derive(Clone, Debug)]
pub struct Bounded<S> {
    inner: S,
    longest: usize,
}

impl<S, I, O> Service<Request<I>> for Bounded<S>
where
    S: Service<Request<I>, Response = Response<O>>,
    S::Future: Send + 'static,
    O: http_body::Body<Data = Bytes> + Send + 'static,
    O::Error: Into<BoxError>,
{
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<I>) -> Self::Future {
        let longest = self.longest;
        let answer = self.inner.call(request);
        Box::pin(async move { Ok(answer.await?.map(|body| bounded(body, longest))) })
    }
}

/// The body, until a stretch of it without a line break is longer than `longest`.
fn bounded<B>(body: B, longest: usize) -> UnsyncBoxBody<Bytes, BoxError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut length = 0;
    let frames = BodyStream::new(body).map(move |frame| {
        let frame = frame.map_err(Into::into)?;
        if let Some(data) = frame.data_ref() {
            length =
                memchr::memrchr(b'\n', data).map_or(length + data.len(), |at| data.len() - at - 1);
        }
        if length > longest {
            Err(BoxError::from(ReadError::TooLarge(longest)))
        } else {
            Ok(frame)
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use futures::{future::join_all, stream};
    use tokio::time::timeout;

    use super::*;

    const MIB: usize = 1 << 20;
    const LIMITS: Limits = Limits {
        page: MIB,
        line: MIB,
        answer: MIB,
        refusal: 1_000,
        share: 4 * MIB,
        shared: 2 * MIB,
    };

    /// So many chunks of 32 KiB, each a moment after the other.
    fn body(chunks: usize) -> impl http_body::Body<Data = Bytes, Error = Infallible> {
        let chunk = Bytes::from(vec![b' '; 32 << 10]);
        let frames = stream::unfold(chunks, move |left| {
            let chunk = chunk.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                (left > 0).then(|| (Ok(http_body::Frame::data(chunk)), left - 1))
            }
        });
        StreamBody::new(frames)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_to_its_limit_and_no_further() {
        let budget = Budget::new(LIMITS);
        let intake = budget.share("a");
        let read = intake.read(body(32), MIB).await.unwrap();
        assert_eq!((read.len(), budget.held()), (MIB, MIB));
        let clone = read.clone();
        drop(read);
        assert_eq!(budget.held(), MIB);
        drop(clone);
        assert!(matches!(
            intake.read(body(33), MIB).await,
            Err(ReadError::TooLarge(MIB))
        ));
        assert!(
            matches!(
                intake.read(body(usize::MAX), MIB).await,
                Err(ReadError::TooLarge(MIB))
            ),
            "an endless one"
        );
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_refusal_only_the_beginning_is_read_even_if_it_never_ends() {
        let intake = Budget::new(LIMITS).share("a");
        assert_eq!(
            intake.read_refusal(body(usize::MAX)).await.unwrap().len(),
            1_000
        );
    }

    #[tokio::test(start_paused = true)]
    async fn readers_that_want_more_than_there_is_all_finish_and_stay_within_the_bound() {
        let budget = Budget::new(LIMITS);
        let members: Vec<Intake> = (0..40)
            .map(|number| budget.share(&number.to_string()))
            .collect();
        let reads = join_all(members.iter().map(|intake| async {
            // Let go at once, as one whose page is written.
            intake.read(body(32), MIB).await.map(|bytes| bytes.len())
        }));
        let lengths = timeout(Duration::from_mins(1), reads)
            .await
            .expect("they block each other");
        assert!(lengths.into_iter().all(|length| length.unwrap() == MIB));
        assert!(
            budget.peak() <= LIMITS.bound() && budget.peak() > LIMITS.shared,
            "{}",
            budget.peak()
        );
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_is_read_on_until_others_wait_for_its_memory() {
        // Much at first, so that there is much memory for it, and then very little for an hour.
        let trickle = || {
            let beginning = stream::iter([Bytes::from(vec![b' '; 700 << 10])]);
            let rest = stream::iter(0..3_600).then(|_| async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Bytes::from_static(b" ")
            });
            StreamBody::new(
                beginning
                    .chain(rest)
                    .map(|data| Ok::<_, Infallible>(http_body::Frame::data(data)))
                    .boxed(),
            )
        };
        let budget = Budget::new(LIMITS);
        let intakes: Vec<Intake> = (0..3)
            .map(|number| budget.share(&number.to_string()))
            .collect();
        let slow: Vec<_> = intakes
            .into_iter()
            .map(|intake| tokio::spawn(async move { intake.read(trickle(), MIB).await }))
            .collect();
        tokio::time::sleep(Duration::from_mins(30)).await;
        assert!(slow.iter().all(|read| !read.is_finished()), "nobody waits");
        assert!(
            budget.held() > LIMITS.shared,
            "{} bytes, the reserve among them",
            budget.held()
        );

        let other = budget.share("other");
        assert_eq!(
            timeout(2 * LAP, other.read(body(32), MIB))
                .await
                .expect("it waits for ever")
                .unwrap()
                .len(),
            MIB
        );
        let read = join_all(slow).await;
        assert!(
            read.iter()
                .any(|read| matches!(read, Ok(Err(ReadError::Slow)))),
            "{read:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_has_used_up_its_share_is_refused_and_others_are_not() {
        let limits = Limits {
            share: MIB,
            shared: 8 * MIB,
            ..LIMITS
        };
        let budget = Budget::new(limits);
        let (greedy, other) = (budget.share("greedy"), budget.share("other"));
        let held = greedy.read(body(32), MIB).await.unwrap();
        assert!(matches!(
            budget.share("greedy").read(body(4), MIB).await,
            Err(ReadError::Crowded(_))
        ));
        assert!(other.read(body(32), MIB).await.is_ok());
        drop(held);
        assert!(greedy.read(body(32), MIB).await.is_ok());
    }

    #[tokio::test]
    async fn an_answer_of_the_control_plane_is_bounded_and_a_watch_is_not() {
        let frames = |text: &'static str, times: usize| {
            let frame = move || {
                Ok::<_, Infallible>(http_body::Frame::data(Bytes::from_static(text.as_bytes())))
            };
            StreamBody::new(stream::iter(std::iter::repeat_with(frame).take(times)))
        };
        assert!(
            bounded(frames("0123456789", 10), 100)
                .collect()
                .await
                .is_ok()
        );
        assert!(
            bounded(frames("0123456789", 11), 100)
                .collect()
                .await
                .is_err()
        );
        assert!(
            bounded(frames("0123\n56789", 1_000), 100)
                .collect()
                .await
                .is_ok()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_waiting_gives_back_what_it_had() {
        let budget = Budget::new(Limits {
            shared: MIB,
            ..LIMITS
        });
        let intakes = ["a", "b", "c"].map(|name| budget.share(name));
        let held = [
            intakes[0].read(body(32), MIB).await.unwrap(),
            intakes[1].read(body(32), MIB).await.unwrap(),
        ];
        assert!(
            timeout(Duration::from_secs(5), intakes[2].read(body(32), MIB))
                .await
                .is_err()
        );
        drop(held);
        assert_eq!(
            (budget.held(), intakes[2].share.held.load(Ordering::Relaxed)),
            (0, 0)
        );
        assert!(intakes[2].read(body(32), MIB).await.is_ok());
    }
}
