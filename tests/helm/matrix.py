"""The named sets of values with which every check of the chart runs."""

import copy
from typing import Any

import pytest

from deploy.cache import CHECKOUT

Values = dict[str, Any]

CATALOGUE = CHECKOUT / "deploy" / "catalogues" / "plant.yaml"
CONTRACT = CHECKOUT / "model_repo" / "plant-pump" / "contract.json"
CONFIG = CHECKOUT / "training" / "configs" / "plant-pump-again.toml"
DIGEST = "sha256:" + "0" * 64


def merged(values: Values, changes: Values) -> Values:
    """Merge `changes` into `values`, as helm merges values files."""
    result = copy.deepcopy(values)
    for key, change in changes.items():
        result[key] = merged(result.get(key) or {}, change) if isinstance(change, dict) else change
    return result


# The minimum that an installation requires.
SMALLEST: Values = {
    "image": {"registry": "registry.example/team"},
    "kafka": {"bootstrapServers": "kafka-0:9092,kafka-1:9092"},
}

# A Triton outside the release, and the user's catalogue.
OUTSIDE: Values = {
    "triton": {"enabled": False, "address": "triton.models:8001"},
    "catalogue": {"inline": CATALOGUE.read_text()},
    "models": {"source": "inline", "contracts": {"plant-pump": CONTRACT.read_text()}},
}

SECURED: Values = {
    "kafka": {
        "topicNames": {"dead_letters": "unusable", "late": "belated", "outages": "dark"},
        "extra": {"linger_ms": 20, "max_poll_records": 1_000_000, "compression_type": "lz4"},
        "qualityTopic": "imputation-quality",
        "healthTopic": "sensor-health",
        "maxMessageBytes": 10_000_000,
        "tls": {"enabled": True, "existingSecret": "kafka-ca", "caKey": "root.pem"},
        "sasl": {"enabled": True, "existingSecret": "kafka-login"},
    },
}

TRITON_SECURED: Values = {
    "triton": {
        "tls": {"enabled": True, "existingSecret": "triton-server", "mutual": True},
        "client": {
            "tls": {
                "enabled": True,
                "existingSecret": "triton-ca",
                "clientCertificate": {"existingSecret": "triton-worker"},
            },
            "token": {"existingSecret": "triton-token"},
        },
    },
}

_EVERY_POD_SETTING: Values = {
    "image": {"digest": DIGEST},
    "runAsUser": None,
    "runAsGroup": None,
    "spread": {"hosts": "DoNotSchedule", "zones": ""},
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "extraVolumes": [{"name": "scratch", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    "extraContainers": [
        {
            "name": "beside",
            "image": "registry.example/beside:1.0",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "startupProbe": {"exec": {"command": ["true"]}, "failureThreshold": 30},
            "livenessProbe": {"exec": {"command": ["true"]}, "failureThreshold": 6},
            "readinessProbe": {"exec": {"command": ["true"]}},
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "16Mi"}},
        }
    ],
    "podAnnotations": {"a": "b"},
    "podLabels": {"team": "plant"},
    "nodeSelector": {"pool": "streams"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high",
}

_CHANGES: dict[str, Values] = {
    "smallest": {},
    "outside": OUTSIDE,
    "secured": SECURED,
    "mutual TLS": {
        "kafka": {
            "bootstrapServers": "kafka-a:9093, kafka-b:9094",
            "tls": {
                "enabled": True,
                "existingSecret": "kafka-ca",
                "clientCertificate": {
                    "existingSecret": "plant-user",
                    "certificateKey": "user.crt",
                    "privateKeyKey": "user.key",
                },
            },
        },
    },
    "scaled by lag": merged(
        SECURED, {"kafka": {"partitions": 64}, "autoscaling": {"kind": "keda", "minReplicas": 3, "maxReplicas": 48}}
    ),
    "scaled by lag, without secrets": {"autoscaling": {"kind": "keda"}},
    "scaled by CPU": {"autoscaling": {"kind": "hpa"}},
    "narrow network": {
        "audit": {"enabled": True},
        "networkPolicy": {
            "metricsFrom": [
                {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
                    "podSelector": {"matchLabels": {"prometheus": "plant"}},
                }
            ],
            "kafkaPorts": [19092],
            "kafkaTo": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
            "extraEgress": [{"ports": [{"port": 3128, "protocol": "TCP"}]}],
        },
    },
    "ServiceMonitors": {
        "monitoring": {
            "labels": {"release": "kube-prometheus-stack"},
            "interval": "",
            "scrapeTimeout": "10s",
            "podMonitor": {"enabled": False},
            "serviceMonitor": {"enabled": True},
            "runbookUrl": "https://wiki.example/glaim-stream",
            "dashboard": {"annotations": {"grafana_folder": "Plant"}},
        }
    },
    "metrics by TLS": {
        "metrics": {"tls": {"enabled": True, "existingSecret": "metrics-server"}},
        "monitoring": {"podMonitor": {"enabled": True}},
    },
    "metrics by mutual TLS": {
        "metrics": {
            "tls": {
                "enabled": True,
                "existingSecret": "metrics-server",
                "certificateKey": "server.crt",
                "privateKeyKey": "server.key",
                "caKey": "root.pem",
                "serverName": "metrics.example",
                "mutual": True,
                "clientCertificate": {
                    "existingSecret": "prometheus",
                    "certificateKey": "user.crt",
                    "privateKeyKey": "user.key",
                },
            }
        },
        "monitoring": {"podMonitor": {"enabled": False}, "serviceMonitor": {"enabled": True}},
    },
    "without policies and tests": {"networkPolicy": {"enabled": False}, "tests": {"enabled": False}},
    "TLS with the CA certificates of the image": {"kafka": {"tls": {"enabled": True}}},
    "CPU only": {"triton": {"device": "cpu", "tolerations": [], "replicas": 2}},
    "slices of a GPU": {
        "triton": {
            "replicas": 3,
            "gpu": {"resource": "nvidia.com/mig-1g.10gb"},
            "runtimeClassName": "nvidia",
            "nodeSelector": {"nvidia.com/gpu.present": "true"},
            "strategy": {"maxSurge": 0, "maxUnavailable": 1},
            "spread": {"zones": "DoNotSchedule", "hosts": "DoNotSchedule"},
            "sharedMemory": "256Mi",
            "extraArgs": ["--log-verbose=1"],
        }
    },
    "existing objects": {
        "fullnameOverride": "a-name-that-is-much-too-long-for-the-label-that-a-statefulset-makes",
        "image": {"registry": "registry.example/team/"},
        "imagePullSecrets": [{"name": "pull"}],
        "audit": {"enabled": True},
        "catalogue": {"existingConfigMap": "our-groups", "existingConfigMapKey": "plant.yaml"},
        "models": {"source": "claim", "existingClaim": "models", "subPath": "model_repo"},
        "serviceAccount": {"create": False, "name": "ours"},
        "triton": {"serviceAccount": {"create": False, "name": "ours"}},
        "podDisruptionBudget": {"enabled": False},
        "global": {"of": "a parent chart"},
    },
    "models in a volume, retrained": {
        "triton": {"replicas": 2},
        "models": {"source": "claim", "claim": {"storageClassName": "shared", "annotations": {"a": "b"}}},
        "training": {"enabled": True, "model": "plant-pump", "config": CONFIG.read_text()},
    },
    "workers that learn, in a volume": {
        "catalogue": {"existingConfigMap": "our-groups", "existingConfigMapKey": "plant.yaml"},
        "models": {"source": "claim", "existingClaim": "models"},
        "worker": {
            "imputer": "gaussian",
            "learns": True,
            "resources": {"requests": {"memory": "3Gi"}, "limits": {"memory": "4Gi"}},
        },
        "triton": {"enabled": False},
    },
    "signed models in a volume": {
        "models": {
            "source": "claim",
            "trust": {
                "key": "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3",
                "operators": ["aten::fft_rfft"],
            },
        },
    },
    "models in a bucket, retrained": {
        "kafka": SECURED["kafka"],
        "catalogue": {"inline": CATALOGUE.read_text()},
        "models": {
            "source": "objectStore",
            "objectStore": {
                "uri": "s3://bucket/models?region=eu-central-1",
                "existingSecret": "bucket-login",
                "extraEnv": [{"name": "AWS_EC2_METADATA_DISABLED", "value": "true"}],
            },
        },
        "training": {"enabled": True, "model": "plant-pump", "config": CONFIG.read_text(), "device": "cpu"},
    },
    "trained on a volume": {
        "models": {
            "source": "objectStore",
            "objectStore": {"uri": "s3://bucket/models?endpoint_override=minio:9000", "refreshSeconds": 0},
        },
        "training": {
            "enabled": True,
            "model": "plant-pump",
            "existingConfigMap": "recipe",
            "existingConfigMapKey": "plant.toml",
            "keepVersions": 5,
            "data": {"source": "claim", "existingClaim": "history", "path": "plant/2026.parquet"},
            "work": {"existingClaim": "scratch"},
            "serviceAccount": {"create": False, "name": "trainer"},
            **{key: value for key, value in _EVERY_POD_SETTING.items() if key not in ("spread", "extraContainers")},
            "sharedMemory": "1Gi",
            "runtimeClassName": "nvidia",
            "extraArgs": ["--force-export"],
        },
    },
    "a model in the worker": {
        "triton": {"enabled": False},
        "worker": {"imputer": "local", "image": {"repository": "glaim-stream/training"}},
    },
    "no model": {"triton": {"enabled": False}, "worker": {"imputer": "interpolation"}},
    "closed forms with probes": {
        "triton": {"enabled": False},
        "worker": {"imputer": "gaussian", "scoreShare": 0.05},
        "kafka": {"qualityTopic": "imputation-quality"},
    },
    "the page": {
        "page": {"enabled": True, "existingSecret": "page", "tokenKey": "viewers"},
        "networkPolicy": {"pageFrom": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}]},
    },
    "settings of every object": {
        "commonLabels": {"cost-centre": "4711", "app.kubernetes.io/name": "not ours"},
        "commonAnnotations": {"owner": "plant@example.org", "helm.sh/hook-output-log-policy": "not ours"},
        "hostAliases": [{"ip": "10.1.2.3", "hostnames": ["kafka-0", "kafka-1"]}],
        "dnsPolicy": "None",
        "dnsConfig": {
            "nameservers": ["10.9.8.7"],
            "searches": ["plant.example"],
            "options": [{"name": "ndots", "value": "2"}],
        },
        "revisionHistoryLimit": 3,
        "models": {"source": "objectStore", "objectStore": {"uri": "s3://bucket/models"}},
        "training": {"enabled": True, "model": "plant-pump", "config": CONFIG.read_text()},
        "networkPolicy": {
            "dnsPorts": [53],
            "objectStorePorts": [9000],
            "objectStoreTo": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
            "identityEndpoints": [{"cidr": "169.254.170.23/32", "ports": [80]}],
            "extraIngress": [{"ports": [{"port": 9999, "protocol": "TCP"}]}],
        },
        "monitoring": {
            "podMonitor": {"enabled": True},
            "relabelings": [{"targetLabel": "plant", "replacement": "north"}],
            "metricRelabelings": [{"sourceLabels": ["__name__"], "regex": "python_.*", "action": "drop"}],
        },
    },
    "every setting of the pods": {
        "kafka": {"partitions": 24},
        "metrics": {"port": 9999, "service": {"annotations": {"prometheus.io/scrape": "true"}}},
        "podDisruptionBudget": {"maxUnavailable": "25%"},
        "serviceAccount": {"annotations": {"role": "reader"}},
        "triton": {**_EVERY_POD_SETTING, "serviceAccount": {"annotations": {"role": "reader"}}},
        "worker": {**_EVERY_POD_SETTING, "replicas": 12},
    },
}
# All optional parts in one release.
_CHANGES["everything at once"] = merged(
    merged(_CHANGES["scaled by lag"], _CHANGES["models in a bucket, retrained"]),
    {
        "triton": {
            "replicas": 2,
            "autoscaling": {"kind": "keda", "prometheusAddress": "http://prometheus-operated.monitoring:9090"},
        }
    },
)

# Name -> complete values. Those with an entry in APIS are rendered for a cluster that serves these APIs.
MATRIX: dict[str, Values] = {name: merged(SMALLEST, changes) for name, changes in _CHANGES.items()}
KEDA = ("keda.sh/v1alpha1",)
APIS: dict[str, tuple[str, ...]] = {
    "scaled by lag": KEDA,
    "scaled by lag, without secrets": KEDA,
    "everything at once": KEDA,
}

# For tests that take long for each set: the sets whose settings the rules alone check in `make test` are slow.
_WIDE = (
    "smallest", "outside", "secured", "scaled by lag", "narrow network", "metrics by mutual TLS", "existing objects",
    "models in a volume, retrained", "settings of every object", "every setting of the pods", "everything at once",
)  # fmt: skip
NAMES = [name if name in _WIDE else pytest.param(name, marks=pytest.mark.slow) for name in MATRIX]
