// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Runtimes to run futures on, and futures over futures.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use kofi::{AsyncDomain, AsyncEndpoint, AsyncListener};

/// Something that runs futures.
#[derive(Clone, Copy, Debug)]
pub enum Runtime {
    BlockOn,
    #[cfg(feature = "tokio")]
    Tokio,
    /// Futures run on one thread, and wakers are woken on another.
    #[cfg(feature = "tokio")]
    TokioThreads,
    #[cfg(feature = "async-io")]
    AsyncIo,
}

impl Runtime {
    pub fn run<F: Future>(self, future: F) -> F::Output {
        match self {
            Self::BlockOn => kofi::block_on(future),
            #[cfg(feature = "tokio")]
            Self::Tokio => {
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
            }
            #[cfg(feature = "tokio")]
            Self::TokioThreads => tokio::runtime::Runtime::new().unwrap().block_on(future),
            #[cfg(feature = "async-io")]
            Self::AsyncIo => async_io::block_on(future),
        }
    }
}

/// Makes a test of each function on each runtime.
#[macro_export]
macro_rules! on_each_runtime {
    ($($(#[$attr:meta])* $name:ident)*) => {
        mod block_on { $(#[test] fn $name() { super::$name($crate::common::runtime::Runtime::BlockOn) })* }
        #[cfg(feature = "tokio")]
        mod tokio { $(#[test] fn $name() { super::$name($crate::common::runtime::Runtime::Tokio) })* }
        #[cfg(feature = "tokio")]
        mod tokio_threads { $(#[test] fn $name() { super::$name($crate::common::runtime::Runtime::TokioThreads) })* }
        #[cfg(feature = "async-io")]
        mod async_io { $(#[test] fn $name() { super::$name($crate::common::runtime::Runtime::AsyncIo) })* }
    };
}

/// Polls a future, again each time it is woken, at most so often.
pub async fn polls<F: Future>(mut future: Pin<&mut F>, most: usize) -> Option<F::Output> {
    let mut count = 0;
    poll_fn(|cx| {
        if count == most {
            return Poll::Ready(None);
        }
        count += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if count == most => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

pub async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut one, mut two) = (None, None);
    poll_fn(|cx| {
        if one.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(cx)
        {
            one = Some(output);
        }
        if two.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(cx)
        {
            two = Some(output);
        }
        match (one.take(), two.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (one, two) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|cx| {
        let mut pending = false;
        for (future, output) in &mut futures {
            if output.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(value) => *output = Some(value),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    futures.into_iter().filter_map(|(_, output)| output).collect()
}

/// Runs a function on a thread of its own, and is ready when that ends.
pub fn on_a_thread<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> impl Future<Output = T> {
    let shared = Arc::new(Mutex::new((None, None::<Waker>)));
    let theirs = shared.clone();
    std::thread::spawn(move || {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        let mut shared = theirs.lock().unwrap();
        shared.0 = Some(result);
        shared.1.take().map(Waker::wake)
    });
    poll_fn(move |cx| {
        let mut shared = shared.lock().unwrap();
        match shared.0.take() {
            Some(Ok(value)) => Poll::Ready(value),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => {
                shared.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    })
}

pub struct AsyncPair {
    pub listener: AsyncListener,
    /// The client's domain.
    pub domain: AsyncDomain,
    pub server: AsyncEndpoint,
    pub client: AsyncEndpoint,
}

pub fn listener() -> AsyncListener {
    AsyncListener::bind(super::loopback()).unwrap()
}

/// Both ends of a connection, each in its own domain.
pub async fn pair() -> AsyncPair {
    let listener = listener();
    let connect = AsyncEndpoint::connect(listener.name().unwrap(), b"request", super::PATIENCE);
    let accept = async {
        let request = listener.next_request().await.unwrap();
        assert_eq!(request.data(), b"request");
        request.accept(b"answer").unwrap()
    };
    let (client, server) = join(connect, accept).await;
    let client = client.unwrap();
    assert_eq!(client.accept_data(), b"answer");
    AsyncPair { listener, domain: client.domain().clone(), server, client }
}

impl AsyncPair {
    /// Messages go both ways, in order, and nothing is left of them.
    pub async fn check(&self) {
        for (from, to) in [(&self.client, &self.server), (&self.server, &self.client)] {
            for number in 0..5u64 {
                let send = async {
                    from.send(number.to_le_bytes().to_vec()).await.unwrap().into_single().into_vec()
                };
                let recv = async { to.recv(vec![0; 64]).await.unwrap().into_vec() };
                let (sent, received) = join(send, recv).await;
                assert_eq!(
                    (sent.as_slice(), received.as_slice()),
                    (&number.to_le_bytes()[..], &number.to_le_bytes()[..])
                );
            }
            assert_eq!(from.domain().pending_operations(), 0);
        }
    }
}
