// The etcd server: upstream's main package lies in a module that the proxy does not publish by itself.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
