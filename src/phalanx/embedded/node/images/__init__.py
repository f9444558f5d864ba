"""Images of containers on this machine's disk: where they come from, how they are unpacked, and who uses them.

store    what there is: records by name, and layers that images share; names of images
unpack   archives of files, with bounds
layout   OCI layouts and archives, and Docker's
sources  an image from whatever it is given as; trees of files copied, where layers cannot be mounted
"""
