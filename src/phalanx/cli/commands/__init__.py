"""The commands: module `NAME` has the function `NAME`, which is `phalanx NAME`. `app` imports it when it is called."""
