//go:build race

package engine_test

// raceDetector: everything takes ten times as long.
const raceDetector = true
