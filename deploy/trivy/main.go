// Trivy's rules for Kubernetes objects, without the rest of Trivy: its command needs ten times the packages.
//
//	kubernetes-rules FOLDER    every failed rule of the YAML files in a folder, as JSON lines
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/aquasecurity/trivy/pkg/iac/rego"
	"github.com/aquasecurity/trivy/pkg/iac/scanners/kubernetes"
)

type finding struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	Message  string `json:"message"`
	File     string `json:"file"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "expected a folder")
		os.Exit(2)
	}
	scanner := kubernetes.NewScanner(rego.WithEmbeddedPolicies(true), rego.WithEmbeddedLibraries(true))
	results, err := scanner.ScanFS(context.Background(), os.DirFS(os.Args[1]), ".")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	out := json.NewEncoder(os.Stdout)
	for _, result := range results.GetFailed() {
		found := finding{
			result.Rule().AVDID, string(result.Severity()), result.Description(), result.Metadata().Range().GetFilename(),
		}
		if err := out.Encode(found); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	// Without it a scan that loaded no rule would look like a clean one.
	fmt.Fprintf(os.Stderr, "%d results\n", len(results))
}
