//go:build server

// The etcd server of the comparison: named here so that go.mod and go.sum pin it together with its client.
package main

import _ "go.etcd.io/etcd/server/v3"
