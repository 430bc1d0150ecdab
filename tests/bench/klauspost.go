package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// klauspostArg is the argument that makes this program compress a file with the zstd encoder of klauspost/compress. The
// next arguments are a level of [klauspostLevels], the input and the output.
const klauspostArg = "-klauspost"

// klauspostLevels are the levels of the second baseline.
var klauspostLevels = map[string]zstd.EncoderLevel{
	"default": zstd.SpeedDefault,
	"better":  zstd.SpeedBetterCompression,
}

// klauspost compresses a file to one zstd frame, with the largest window that the encoder has.
func klauspost(args []string) (err error) {
	if len(args) != 3 {
		return fmt.Errorf("%s: found %d arguments, expected a level, an input and an output", klauspostArg, len(args))
	}
	level, ok := klauspostLevels[args[0]]
	if !ok {
		return fmt.Errorf("%s: found level %q, expected default or better", klauspostArg, args[0])
	}
	in, err := os.Open(args[1])
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(args[2])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w, err := zstd.NewWriter(out, zstd.WithEncoderLevel(level), zstd.WithWindowSize(zstd.MaxWindowSize), zstd.WithEncoderCRC(false))
	if err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return errors.Join(err, w.Close())
}
