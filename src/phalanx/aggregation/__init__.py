"""An aggregated API server: an API group that API servers of a cluster pass on to us.

front_proxy  who asks, as the API server says
belief       whom to believe that, as the cluster says now
access       whether who asks may, as the API server says
serving      the port, and what is answered there
"""
