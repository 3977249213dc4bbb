package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
)

// address is a parsed URL of a fleet.
type address struct {
	endpoints []string // HOST:PORT of the members of etcd
	user      string
	password  string
	tls       *tls.Config // nil for none
	fleet     string
	servers   rueidis.ClientOption // how to connect to the members of the fleet
}

var fleetName = regexp.MustCompile(`^[\w.-]{1,100}$`)

// parse reads the URL of a fleet. Errors contain no password.
func parse(text string) (a address, err error) {
	scheme, rest, _ := strings.Cut(text, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	// Package url accepts one host only.
	login := rest[:strings.LastIndex(rest[:end], "@")+1]
	hosts := strings.Split(rest[len(login):end], ",")
	u, failed := url.Parse(scheme + "://" + login + "host" + rest[end:])
	switch {
	case failed != nil: // which may contain the password
		return a, refuse("this is not the URL of a fleet on etcd")
	case scheme != "etcd" && scheme != "etcds":
		return a, refuse("the URL of a fleet on etcd begins with etcd:// or etcds://")
	}
	for _, host := range hosts {
		if strings.LastIndexByte(host, ':') <= strings.LastIndexByte(host, ']') {
			host += ":2379"
		}
		if name, port, err := net.SplitHostPort(host); err != nil || name == "" || port == "" {
			return a, refuse("the URL names a member of etcd without a host, or without a port")
		}
		a.endpoints = append(a.endpoints, host)
	}
	a.user = u.User.Username()
	a.password, _ = u.User.Password()
	if a.fleet = strings.TrimPrefix(u.Path, "/"); a.fleet == "" {
		a.fleet = "default"
	}
	if !fleetName.MatchString(a.fleet) {
		return a, refuse("the name of a fleet has letters, digits, dots, dashes and underscores, at most 100")
	}
	return a, a.query(u.Query(), scheme == "etcds")
}

// query reads the parameters.
func (a *address) query(values url.Values, secure bool) error {
	var cert, key string
	var roots *x509.CertPool
	skip, encrypt := false, false
	var err error
	for name, all := range values {
		value := all[len(all)-1]
		switch name {
		case "ca":
			roots, err = readRoots(value)
		case "cert":
			cert = value
		case "key":
			key = value
		case "skip_verify":
			skip, err = flag(value)
		case "member_user":
			a.servers.Username = value
		case "member_password":
			a.servers.Password = value
		case "member_tls":
			encrypt, err = flag(value)
		default:
			return refuse("unknown parameter " + strconv.Quote(name))
		}
		if err != nil {
			return refuse("invalid parameter " + name).Wrap(err)
		}
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, InsecureSkipVerify: skip} // skip_verify asks for that
	if encrypt {
		a.servers.TLSConfig = config.Clone()
	}
	if secure {
		a.tls = config
		if cert != "" || key != "" {
			load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				mine, err := tls.LoadX509KeyPair(cert, key)
				return &mine, err
			}
			if _, err := load(nil); err != nil {
				return refuse("the certificate cannot be used").Wrap(err)
			}
			a.tls.GetClientCertificate = load // for each connection, since it may have been renewed
		}
	} else if cert != "" || key != "" || !encrypt && (roots != nil || skip) {
		return refuse("the URL has parameters for TLS, and does not use it").WithHint("Write etcds:// for TLS.")
	}
	return nil
}

// flag reads a parameter that needs no value.
func flag(value string) (bool, error) {
	if value == "" {
		return true, nil
	}
	return strconv.ParseBool(value)
}

func readRoots(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, errors.New(file + " contains no certificate in PEM")
	}
	return roots, nil
}

func refuse(why string) *millrace.Error {
	return millrace.ErrBadArgument.Errorf("%s", why).WithHint("Give etcd://USER:PASSWORD@HOST:PORT,HOST2:PORT2/FLEET, with special characters percent-encoded.")
}
