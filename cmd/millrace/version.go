package main

import (
	"fmt"
	"io"
	"runtime/debug"
)

type versionCommand struct{}

func (*versionCommand) Help() string {
	return `Examples:

    millrace version
    millrace version --json`
}

// versionDoc describes the build. Version is "(devel)" and Revision empty where
// the build did not record them.
type versionDoc struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Revision string `json:"revision"`
}

func (*versionCommand) Run(a *app) error {
	doc := versionDoc{Version: "(devel)"}
	if info, ok := debug.ReadBuildInfo(); ok {
		doc = newVersionDoc(info)
	}
	return a.print(doc, func(w io.Writer) {
		revision := doc.Revision
		if revision == "" {
			revision = "unknown"
		}
		fmt.Fprintf(w, "millrace %s\n%s\nrevision %s\n", doc.Version, doc.Go, revision)
	})
}

func newVersionDoc(info *debug.BuildInfo) versionDoc {
	doc := versionDoc{Version: info.Main.Version, Go: info.GoVersion}
	if doc.Version == "" {
		doc.Version = "(devel)"
	}
	modified := ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			doc.Revision = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			modified = "+modified"
		}
	}
	if doc.Revision != "" {
		doc.Revision += modified
	}
	return doc
}
