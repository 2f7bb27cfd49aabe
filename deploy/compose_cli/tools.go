//go:build tools

// Package tools names the program that go.mod and go.sum pin, so that `go mod tidy` keeps it.
package tools

import _ "github.com/docker/compose/v2/cmd"
