module glaim-stream/compose-cli

go 1.24.9

require github.com/docker/compose/v2 v2.40.3
