//go:build !unix

package main

func neverStopForInput() {}
