// Each release has a module file of its own: go build -modfile=1.36.mod
module controlplane

go 1.26.0
