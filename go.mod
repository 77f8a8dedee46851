module github.com/weirhttp/weir

go 1.26.0

require (
	github.com/maypok86/otter/v2 v2.4.0
	github.com/stretchr/testify v1.12.1
	github.com/zeebo/blake3 v0.2.4
)

require (
	github.com/klauspost/cpuid/v2 v2.0.12 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
