// certmanager is cert-manager's own controllers for Certificates and for issuers with a CA, in one program, for one namespace.
//
// cert-manager publishes its controllers as a library. Its own program adds ACME, Vault, the webhook and leader election.
//
//	certmanager KUBECONFIG NAMESPACE
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	"github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

var names = []string{
	approver.ControllerName,
	ca.CRControllerName,
	selfsigned.CRControllerName,
	issuing.ControllerName,
	keymanager.ControllerName,
	readiness.ControllerName,
	requestmanager.ControllerName,
	revisionmanager.ControllerName,
	trigger.ControllerName,
	issuers.ControllerName,
}

// Defaults of cert-manager's own program.
const (
	minimumBackoff = time.Hour
	maximumBackoff = 32 * time.Hour
	workers        = 2
)

func main() {
	if len(os.Args) != 3 {
		fail(errors.New("usage: certmanager KUBECONFIG NAMESPACE"))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func run(ctx context.Context, kubeconfig, namespace string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:    kubeconfig,
		Namespace:     namespace,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: namespace},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: minimumBackoff,
			CertificateRequestMaximumBackoffDuration: maximumBackoff,
		},
	})
	if err != nil {
		return err
	}
	built, err := build(factory)
	if err != nil {
		return err
	}
	// All contexts share the informers, which may start when every controller has asked for its own.
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return all(ctx, built)
}

func build(factory *controller.ContextFactory) ([]controller.Interface, error) {
	var built []controller.Interface
	for _, name := range names {
		each, err := controller.Known()[name](factory)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		built = append(built, each)
	}
	return built, nil
}

// all runs the controllers until the context ends, or one of them fails.
func all(ctx context.Context, controllers []controller.Interface) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make([]error, len(controllers))
	var running sync.WaitGroup
	for index, each := range controllers {
		running.Go(func() {
			ended[index] = each.Run(workers, ctx)
			cancel()
		})
	}
	running.Wait()
	return errors.Join(ended...)
}
