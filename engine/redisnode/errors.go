package redisnode

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/permitd/permitd/engine"
)

// Kinds of errors that a server answers with; what is told to the engine wraps engine.ErrBroken and one of them.
var (
	ErrNoScript   = errors.New("NOSCRIPT: it lost its scripts, so it may have been restarted")
	ErrReadOnly   = errors.New("READONLY: it is a replica now")
	ErrLoading    = errors.New("LOADING: it is still loading its data")
	ErrMasterDown = errors.New("MASTERDOWN: it is a replica and has lost its master")
	ErrMemory     = errors.New("OOM: its maxmemory is used up")
	ErrDisk       = errors.New("MISCONF: it cannot write to its disk")
	ErrNoAuth     = errors.New("NOAUTH: it wants a password")
	ErrWrongPass  = errors.New("WRONGPASS: it does not take the user and password")
	ErrNoPerm     = errors.New("NOPERM: its user may not do what a node needs")
	ErrOther      = errors.New("an error that is not expected")
)

// kinds are the first words of the errors that are told apart.
var kinds = map[string]error{
	"NOSCRIPT": ErrNoScript, "READONLY": ErrReadOnly, "LOADING": ErrLoading, "MASTERDOWN": ErrMasterDown, "OOM": ErrMemory,
	"MISCONF": ErrDisk, "NOAUTH": ErrNoAuth, "WRONGPASS": ErrWrongPass, "NOPERM": ErrNoPerm,
}

// kindOf returns the kind of an error that the server answered with; nil: the error is another one, of the connection.
func kindOf(err error) error {
	replied, ok := errors.AsType[redis.Error](err)
	if !ok {
		return nil
	}
	first, _, _ := strings.Cut(replied.Error(), " ")
	if kind, ok := kinds[first]; ok {
		return kind
	}
	return ErrOther
}

// named wraps an error that the server answered with, so that its kind can be told; others it returns as they are.
func named(err error) error {
	if kind := kindOf(err); kind != nil {
		return fmt.Errorf("%w: %w (%w)", engine.ErrBroken, kind, err)
	}
	return err
}

// hintsAtRestart reports whether an error of this kind means that the server may not be what it was.
func hintsAtRestart(kind error) bool {
	switch kind {
	case ErrNoScript, ErrReadOnly, ErrLoading, ErrMasterDown:
		return true
	}
	return false
}

// needsHandshake reports whether the user and password have to be told anew.
func needsHandshake(kind error) bool { return kind == ErrNoAuth || kind == ErrWrongPass }
