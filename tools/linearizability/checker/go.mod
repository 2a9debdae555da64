module warren/linearizability

go 1.16

require github.com/anishathalye/porcupine v1.2.1
