"""A real Kubernetes on one machine, without containers and without kubelets: to install the chart into.

    with LocalCluster() as cluster:
        print(cluster.kubeconfig)

API server, controller manager, scheduler and etcd are upstream's programs, built from source. Only the nodes are
fake: kwok plays their kubelets, so a pod that the scheduler places becomes Running and Ready with no process behind it.
So what admission, controllers, scheduler and disruption budgets say is real; what a container would do is not.
"""

from deploy.cluster.local import LocalCluster
from deploy.cluster.programs import ClusterUnavailable, Programs, control_plane

__all__ = ["ClusterUnavailable", "LocalCluster", "Programs", "control_plane"]
