"""Import, unpack and store images of containers on the disk of this machine.

store    the stored images: a record for each name, and layers that images share; names of images
unpack   unpack archives of files, with limits on their size
layout   read OCI layouts and archives, and the archives of Docker
sources  import an image from a layout, an archive, a folder or a registry; copy trees of files if layers cannot be
         mounted
"""
