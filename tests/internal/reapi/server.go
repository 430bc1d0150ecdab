// Package reapi runs a remote execution server (REAPI: content store, action cache and execution) on this machine
// for tests, so that a build can be seen to run remotely without a cluster.
//
// The server is buildbox-casd. It accepts version 2.1 of the API and up, while some builds of Bazel offer 2.0 only;
// nothing that Bazel asks for differs. A pass-through in front of it therefore announces 2.0, and counts executions.
package reapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// Options say how to start a server.
type Options struct {
	// Dir holds the content store. It is made if need be, and kept.
	Dir string
	// Casd and Runner are the programs buildbox-casd and buildbox-run-hosttools; found on PATH when empty.
	Casd, Runner string
	// Log takes what the server says; nil for nowhere.
	Log io.Writer
}

// Server is a running remote execution server.
type Server struct {
	address    string
	executions atomic.Int64

	front   *grpc.Server
	backend *grpc.ClientConn
	process *os.Process
	exited  chan struct{} // closed when buildbox-casd has ended
	socket  string        // the directory of its socket
}

// startTimeout bounds the time until buildbox-casd answers; it reads its store first.
const startTimeout = 60 * time.Second

// maxIdle is how long a connection without a call is kept. At the end of a build, Bazel waits until its connection has
// ended. With dynamic execution, where calls are cancelled all the time, its gRPC library at times takes one of them for
// unfinished that the server has never seen (a count of pending credentials that stays above 0), and then never ends the
// connection itself.
const maxIdle = 5 * time.Second

// Start starts a server and returns when it answers. The server ends with Close, and dies with this process.
func Start(ctx context.Context, opts Options) (*Server, error) {
	casd, err := program(opts.Casd, "buildbox-casd")
	if err != nil {
		return nil, err
	}
	runner, err := program(opts.Runner, "buildbox-run-hosttools")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return nil, err
	}
	// A socket of its own needs no port that another process could take; its path must be short.
	socket, err := os.MkdirTemp("", "reapi")
	if err != nil {
		return nil, err
	}
	target := "unix:" + filepath.Join(socket, "casd")
	s := &Server{socket: socket, exited: make(chan struct{})}
	cmd := exec.Command(casd, "--bind="+target, "--log-level=warning", "--buildbox-run="+runner,
		// Each runner stages for itself. The server would do it by FUSE, which is not to be had in a user namespace, or by
		// copies; and a program that it copies while it starts another runner is "busy" when it is to be run.
		"--runner-arg=--disable-localcas", opts.Dir)
	cmd.Stdout, cmd.Stderr = opts.Log, opts.Log
	if err := s.run(cmd); err != nil {
		os.RemoveAll(socket)
		return nil, err
	}
	if err := s.serve(ctx, target); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func program(path, name string) (string, error) {
	if path == "" {
		path = name
	}
	return exec.LookPath(path)
}

// run starts the command so that it dies with this process.
func (s *Server) run(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The signal comes when the thread that started the process ends, so keep that thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
			close(s.exited)
		}
	}()
	err := <-started
	s.process = cmd.Process
	return err
}

// serve waits for the backend and opens the pass-through in front of it.
func (s *Server) serve(ctx context.Context, target string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var err error
	s.backend, err = grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return err
	}
	for {
		var answer []byte
		// An empty GetCapabilitiesRequest.
		err := s.backend.Invoke(ctx, capabilitiesMethod, &[]byte{}, &answer)
		if err == nil {
			break
		}
		select {
		case <-s.exited:
			return fmt.Errorf("buildbox-casd ended at once: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("buildbox-casd does not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.address = "grpc://" + listener.Addr().String()
	s.front = grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(s.pass),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: maxIdle}))
	go s.front.Serve(listener)
	return nil
}

// Address is what Bazel takes as --remote_executor, like grpc://127.0.0.1:39999.
func (s *Server) Address() string { return s.address }

// Executions is the number of actions that were sent for execution so far. Answers from the action cache are none.
func (s *Server) Executions() int64 { return s.executions.Load() }

// Close stops the server. The content store stays.
func (s *Server) Close() error {
	if s.front != nil {
		s.front.Stop()
	}
	var errs []error
	if s.backend != nil {
		errs = append(errs, s.backend.Close())
	}
	s.process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(10 * time.Second):
		s.process.Kill()
		<-s.exited
	}
	errs = append(errs, os.RemoveAll(s.socket))
	return errors.Join(errs...)
}
