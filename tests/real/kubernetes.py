"""What Helm makes of share/helm/zinc, held to Kubernetes' schemas and to the manifests of share/kubernetes.

helm_python is Helm's own library (v4), kubernetes-validate has the schemas of Kubernetes' OpenAPI. Prints MISS lines.
"""
import copy
import json
import subprocess
import sys
import tempfile

import helm_python
import jsonschema
import kubernetes_validate
import yaml
from helm_python import chart as helm

VERSIONS = ["1.25", "1.30", kubernetes_validate.latest_version()]
PLAIN = ["zinc", "gateway", "autoscale"]
misses = 0


def miss(text):
    global misses
    misses += 1
    print("MISS:", text)


def name_of(o):
    return f"{o['kind']} {o['metadata']['name']}"


def of_schemas(o, where):
    if o["apiVersion"].split("/")[0] in ("monitoring.coreos.com", "gateway.networking.k8s.io"):
        return  # not Kubernetes' own: their schemas are not in the package
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(o, version, strict=True)
        except kubernetes_validate.ValidationError as e:
            miss(f"{where}: {name_of(o)}, Kubernetes {version}: {e.message} at {'.'.join(map(str, e.path))}")


def plain(name):
    with open(f"share/kubernetes/{name}.yaml", encoding="utf-8") as f:
        return [o for o in yaml.safe_load_all(f) if o]


def rendered(chart, values, where, release="zinc"):
    objects = []
    for file, text in chart.render(values=values, name=release, namespace="zinc").items():
        if not file.endswith("NOTES.txt"):
            objects += [o for o in yaml.safe_load_all(text) if o]
    for o in objects:
        of_schemas(o, where)
    return objects


def bare(o):
    """Without the labels that Helm puts on what it made."""
    o = copy.deepcopy(o)
    for label in ("app.kubernetes.io/managed-by", "helm.sh/chart"):
        o["metadata"]["labels"].pop(label, None)
    return o


def compare(a, b, path, where):
    if isinstance(a, dict) and isinstance(b, dict):
        for k in sorted(a.keys() | b.keys()):
            if k not in a or k not in b:
                miss(f"{where}: {path}.{k} is only in {'the manifest' if k in a else 'the chart'}")
            else:
                compare(a[k], b[k], f"{path}.{k}", where)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            compare(x, y, f"{path}[{i}]", where)
    elif a != b:
        miss(f"{where}: {path}: the manifest has {json.dumps(a)[:200]}, the chart {json.dumps(b)[:200]}")


def find(objects, kind, name):
    found = [o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name]
    if len(found) != 1:
        miss(f"{len(found)} objects {kind} {name}")
        return {}
    return found[0]


def main():
    path = "share/helm/zinc"
    for line in helm.lint(path)["messages"]:
        if line["severity"] > 1:  # 1: advice
            miss(f"lint: {line}")
    for name in PLAIN + ["ingress"]:
        for o in plain(name):
            of_schemas(o, f"share/kubernetes/{name}.yaml")
    with open(f"{path}/values.schema.json", encoding="utf-8") as f:
        jsonschema.Draft7Validator.check_schema(json.load(f))
    with tempfile.TemporaryDirectory() as out:  # the archive that make dist makes is the chart
        made = subprocess.run(["pack/chart.sh", sys.argv[1], out], check=True, capture_output=True, text=True).stdout.strip()
        with helm.Chart.load(made) as packed, helm.Chart.load(path) as chart:
            if (packed.metadata, packed.values, packed.templates) != (chart.metadata, chart.values, chart.templates):
                miss("pack/chart.sh makes another chart")
    with helm.Chart.load(path) as chart:
        # the chart's defaults are the manifests
        made = {name_of(o): o for o in map(bare, rendered(chart, {}, "defaults"))}
        here = {name_of(o): o for n in PLAIN for o in plain(n)}
        for k in made.keys() ^ here.keys():
            miss(f"{k} is only in {'the chart' if k in made else 'share/kubernetes'}")
        for k in made.keys() & here.keys():
            compare(here[k], made[k], k, "share/kubernetes")
        # what values change
        o = rendered(chart, {"gpu": {"vendor": "nvidia", "count": 2}, "autoscaling": {"enabled": False}, "replicas": 3,
                             "model": "/models/a b.gguf", "pull": False, "storage": {"size": "5Gi", "claim": "models"},
                             "serve": {"drainSeconds": 60, "extraArgs": ["--slots", "8"]}, "loadSeconds": 61}, "nvidia", "chat")
        s = find(o, "StatefulSet", "chat-zinc")["spec"]
        pod = s["template"]["spec"]
        c = pod["containers"][0]
        want = {
            "replicas": (s["replicas"], 3),
            "card": (c["resources"]["limits"].get("nvidia.com/gpu"), "2"),
            "memory": (c["resources"]["limits"].get("memory"), "6Gi"),
            "model": (c["args"][2], "/models/a b.gguf"),
            "options": (c["args"][-2:], ["--slots", "8"]),
            "pull": ("initContainers" in pod, False),
            "grace": (pod["terminationGracePeriodSeconds"], 90),
            "load": (c["startupProbe"]["failureThreshold"], 13),
            "claim": ([v["mountPath"] for v in c["volumeMounts"] if v["name"] == "models"], ["/models"]),
            "autoscaler": ([x for x in o if x["kind"] == "HorizontalPodAutoscaler"], []),
            "gateway": (find(o, "ConfigMap", "chat-zinc-gateway")["data"]["haproxy.cfg"].count("        server chat"), 0),
        }
        text = find(o, "ConfigMap", "chat-zinc-gateway")["data"]["haproxy.cfg"]
        want["servers"] = (text.count('"chat-zinc-2.chat-zinc-pods.${NAMESPACE}.svc.cluster.local:8080"'), 1)
        want["no more servers"] = (text.count("    server zinc-"), 3)
        for what, (got, wanted) in want.items():
            if got != wanted:
                miss(f"values: {what}: {got!r} instead of {wanted!r}")
        o = rendered(chart, {"gpu": {"vendor": "amd", "groups": [109]}, "gateway": {"enabled": False}, "ingress": {"enabled": True},
                             "podMonitor": {"enabled": True}}, "amd")
        if find(o, "StatefulSet", "zinc")["spec"]["template"]["spec"]["securityContext"].get("supplementalGroups") != [109]:
            miss("values: amd: the group is missing")
        if find(o, "Ingress", "zinc")["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"] != "zinc":
            miss("values: without a gateway the ingress leads elsewhere")
        find(o, "PodMonitor", "zinc")
        # what must be refused
        for bad in ({"gpu": {"vendor": "intel"}}, {"replicas": "two"}, {"sirvice": {}}, {"storage": {"size": "much"}}, {"model": ""},
                    {"autoscaling": {"load": "-1"}}):
            try:
                chart.render(values=bad, name="zinc")
                chart.validate_schema(bad)
                miss(f"values: {bad} are taken")
            except helm_python.HelmError:
                pass
        try:
            chart.render(values={"autoscaling": {"min": 5, "max": 2}}, name="zinc")
            miss("values: autoscaling.min above max is taken")
        except helm_python.HelmError as e:
            if "expected at most" not in str(e):
                miss(f"values: autoscaling.min above max: {e}")
    return 1 if misses else 0


sys.exit(main())
