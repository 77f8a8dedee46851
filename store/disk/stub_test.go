package disk

func writeForEver()   {}
func openOnce()       {}
func requestForEver() {}
