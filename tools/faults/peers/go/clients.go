package main

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
)

// goRedis returns a connected client for each independent server. It fails if no server is up.
//
// The clients connect in advance, because redsync gives each call only a part of the lease, and with a short lease a call
// would spend that on connecting. ContextTimeoutEnabled makes the clients respect the deadlines of contexts, on which both
// libraries rely. go-redis ignores them by default.
func goRedis(of setting) ([]redis.UniversalClient, error) {
	clients, err := unconnected(of)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, client := range clients {
		if err := client.Ping(context.Background()).Err(); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) == len(clients) {
		return nil, errors.Join(failed...)
	}
	return clients, nil
}

func unconnected(of setting) ([]redis.UniversalClient, error) {
	switch of.deployment {
	case "sentinel":
		addresses, master := addresses(of.urls)
		return []redis.UniversalClient{redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: master, SentinelAddrs: addresses, ContextTimeoutEnabled: true,
		})}, nil
	case "cluster":
		addresses, _ := addresses(of.urls)
		return []redis.UniversalClient{redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: addresses, ContextTimeoutEnabled: true,
		})}, nil
	}
	clients := make([]redis.UniversalClient, len(of.urls))
	for i, url := range of.urls {
		options, err := redis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		options.ContextTimeoutEnabled = true
		clients[i] = redis.NewClient(options)
	}
	return clients, nil
}

// addresses returns the hosts and the path of `scheme://host:port,host:port/path`, which was split at its commas.
func addresses(pieces []string) (hosts []string, path string) {
	whole, err := url.Parse(pieces[0])
	if err == nil && whole.Path != "" {
		path = strings.TrimPrefix(whole.Path, "/")
	}
	for _, piece := range pieces {
		_, rest, hasScheme := strings.Cut(piece, "://")
		if !hasScheme {
			rest = piece
		}
		host, after, _ := strings.Cut(rest, "/")
		hosts = append(hosts, host)
		if after != "" {
			path = after
		}
	}
	return hosts, path
}
