//! Of calls with one order id one is served at a time, whichever process gets them.

use leasehold_examples::shop::{Order, Shipped, ship};
use leasehold_testbed::Server;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::process::Process;
use crate::resource::Resource;

const PROGRAM: &str = env!("CARGO_BIN_EXE_orders_grpc");

async fn start(server: &Server, resource: &Resource, more: &[&str]) -> (Process, Channel) {
    let address = resource.address();
    let arguments = [&["--resource", &address], more].concat();
    let service = Process::start(PROGRAM, server, &arguments);
    let url = format!("http://{}", service.value("listening on "));
    let channel = Channel::from_shared(url).unwrap().connect().await.unwrap();
    (service, channel)
}

async fn call(channel: &Channel, number: u64) -> Result<Shipped, Status> {
    let mut order = Request::new(Order { number });
    order
        .metadata_mut()
        .insert("order-id", number.to_string().parse().unwrap());
    ship(channel.clone(), order).await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_order_is_shipped_once_at_a_time_and_other_orders_in_parallel() {
    let (server, resource) = (Server::start(), Resource::start());
    let (one, first) = start(&server, &resource, &[]).await;
    let (other, second) = start(&server, &resource, &[]).await;
    let wait = resource.clone();
    let open = tokio::task::spawn_blocking(move || {
        // Two orders: that is all there can be.
        wait.until_inside(2);
        wait.open();
    });
    let of_one = [call(&first, 7), call(&second, 7), call(&second, 7)];
    let of_another = [call(&first, 8), call(&second, 8)];
    let calls = of_one.into_iter().chain(of_another);
    let shipped = futures::future::try_join_all(calls).await.unwrap();
    open.await.unwrap();
    assert_eq!((resource.most_of_one(), resource.visits()), (1, 5));
    let known = [one.pid(), other.pid()];
    assert!(
        shipped.iter().all(|shipped| known.contains(&shipped.by)),
        "{shipped:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_cannot_be_served_gets_the_reason() {
    let (server, resource) = (Server::start(), Resource::start());
    let (_one, first) = start(&server, &resource, &[]).await;
    let (_impatient, second) = start(&server, &resource, &["--wait", "50"]).await;
    let refused = ship(first.clone(), Request::new(Order { number: 7 }))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");

    let (busy, wait) = (first.clone(), resource.clone());
    let running = tokio::spawn(async move { call(&busy, 7).await });
    let until_inside = tokio::task::spawn_blocking(move || wait.until_inside(1));
    until_inside.await.unwrap();
    let refused = call(&second, 7).await.unwrap_err();
    assert_eq!(refused.code(), Code::Aborted, "{refused}");
    resource.open();
    running.await.unwrap().unwrap();
    call(&second, 7).await.unwrap();
}
