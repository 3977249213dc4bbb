package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	got := answer[versionDoc](shell{t: t}, "version")
	if got.Go != runtime.Version() || got.Version == "" {
		t.Errorf("version = %+v, want Go %s and some version", got, runtime.Version())
	}
}

func TestVersionOfBuild(t *testing.T) {
	t.Parallel()
	tests := []struct {
		info debug.BuildInfo
		want versionDoc
	}{
		{
			debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: "v0.1.0"}},
			versionDoc{"v0.1.0", "go1.26", ""},
		},
		{
			debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"}}},
			versionDoc{"(devel)", "", "abc"},
		},
		{
			debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}},
			versionDoc{"(devel)", "", "abc+modified"},
		},
	}
	for _, test := range tests {
		if got := newVersionDoc(&test.info); got != test.want {
			t.Errorf("version of %+v = %+v, want %+v", test.info, got, test.want)
		}
	}
}
