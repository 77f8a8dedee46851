module github.com/weirhttp/weir/examples

go 1.26.0

require github.com/weirhttp/weir v0.0.0

replace github.com/weirhttp/weir => ../
