package etcd_test

import (
	"context"
	"log"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/etcd"
)

// A program uses a fleet whose directory is in etcd as any other client. It needs the three
// members of etcd, so it is compiled here and not run.
func ExampleDial() { //nolint:testableexamples // it needs etcd
	ctx := context.Background()
	f, err := etcd.Dial(ctx, "etcd://etcd1:2379,etcd2:2379,etcd3:2379/main?member_password=secret", fleet.Config{WaitReplicas: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	queue, err := fairqueue.New(f.Client(), "mail", fairqueue.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := queue.Write(ctx, fairqueue.Draft{Tenant: "acme", Body: []byte("hello")}); err != nil {
		log.Fatal(err)
	}
}
